#include "transport/memory/process/factory.h"

#include "transport/memory/process/process_memory.h"

namespace onecopy::process {

Backend<Memory> Describe() {
  constexpr int64_t kMiB = int64_t{1} << 20;
  Backend<Memory> backend;
  backend.name = kProcessKind;
  backend.settings = {
      {.key = "slab_bytes",
       .type = SettingType::kBytes,
       .fallback = 64 * kMiB,
       .doc = "Slab: memory shared with each client that registers ordinary memory of its process. "
              "The client's library copies through it.",
       .least = 2 * kMiB,
       .most = 4096 * kMiB},
      {.key = "client_timeout",
       .type = SettingType::kDuration,
       .fallback = int64_t{10'000},
       .doc =
           "Transfers of such a client's memory fail if the client copies nothing for this long.",
       .least = 100,
       .most = 3'600'000},
  };
  backend.create = [](const BackendContext& context) -> Result<std::unique_ptr<Memory>> {
    return std::unique_ptr<Memory>(
        std::make_unique<ProcessMemory>(context.node, context.settings.Bytes("slab_bytes"),
                                        context.settings.Duration("client_timeout")));
  };
  return backend;
}

}  // namespace onecopy::process
