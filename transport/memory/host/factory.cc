#include "transport/memory/host/factory.h"

#include <algorithm>

#include "transport/memory/host/host_memory.h"
#include "transport/os/machine/machine.h"

namespace onecopy::host {
namespace {

// One thread is far from what the memory can do, above all where it gathers elements: 16 of 32
// cores copy a third more than 8 do.
unsigned DefaultThreads() { return std::clamp(os::UsableCores() / 2, 1U, 16U); }

}  // namespace

Backend<Memory> Describe() {
  Backend<Memory> backend;
  backend.name = "host";
  backend.settings = {
      {.key = "copy_threads",
       .type = SettingType::kInteger,
       .fallback = int64_t{0},
       .doc = "Threads that copy between host memories. 0: chosen from the number of cores.",
       .most = 64},
  };
  backend.create = [](const BackendContext& context) -> Result<std::unique_ptr<Memory>> {
    const auto threads = static_cast<unsigned>(context.settings.Integer("copy_threads"));
    return std::unique_ptr<Memory>(
        std::make_unique<HostMemory>(context.node, threads == 0 ? DefaultThreads() : threads));
  };
  return backend;
}

}  // namespace onecopy::host
