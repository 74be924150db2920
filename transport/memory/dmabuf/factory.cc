#include "transport/memory/dmabuf/factory.h"

#include <algorithm>

#include "transport/memory/dmabuf/dmabuf_memory.h"
#include "transport/os/machine/machine.h"

namespace onecopy::dmabuf {
namespace {

// Reading a device's memory over its bus waits more than it computes, and one device answers no
// faster for being asked by many.
unsigned DefaultThreads() { return std::clamp(os::UsableCores() / 2, 1U, 4U); }

}  // namespace

Backend<Memory> Describe() {
  Backend<Memory> backend;
  backend.name = "dmabuf";
  backend.settings = {
      {.key = "copy_threads",
       .type = SettingType::kInteger,
       .fallback = int64_t{0},
       .doc = "Threads that copy between dma-bufs and host memory; they start when first needed. "
              "0: chosen from the number of cores.",
       .most = 64},
  };
  backend.create = [](const BackendContext& context) -> Result<std::unique_ptr<Memory>> {
    const auto threads = static_cast<unsigned>(context.settings.Integer("copy_threads"));
    return std::unique_ptr<Memory>(
        std::make_unique<DmaBufMemory>(context.node, threads == 0 ? DefaultThreads() : threads));
  };
  return backend;
}

}  // namespace onecopy::dmabuf
