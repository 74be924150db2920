#include "transport/memory/cuda/factory.h"

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/memory/cuda/cuda_memory.h"
#include "transport/shim/cuda.h"
#include "transport/shim/nvml.h"

namespace onecopy::cuda {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

std::vector<SettingSpec> Specs() {
  return {
      {.key = "spin_microseconds",
       .type = SettingType::kInteger,
       .fallback = int64_t{200},
       .doc = "How long a GPU's thread polls for the end of copies before it sleeps. Longer: lower "
              "latency. 0: no polling; the thread notices the end up to 20 microseconds late, and "
              "keeps no core busy.",
       .most = 1'000'000},
      {.key = "peer_chunk",
       .type = SettingType::kBytes,
       .fallback = 256 * kMiB,
       .doc = "Size of one copy between GPUs of this node.",
       .least = kMiB,
       .most = 1024 * kMiB},
      {.key = "host_chunk",
       .type = SettingType::kBytes,
       .fallback = 8 * kMiB,
       .doc = "Size of one copy between a GPU and host memory.",
       .least = kMiB / 16,
       .most = 1024 * kMiB},
      {.key = "keep_open_seconds",
       .type = SettingType::kInteger,
       .fallback = int64_t{5},
       .doc = "How long the daemon keeps a GPU's context open, and the staging slots pinned, after "
              "the last buffer and transfer there. An open context takes about 500 MB of GPU "
              "memory; opening it again takes 0.1 to 0.2 s. 0: close it at once.",
       .most = 86'400},
      {.key = "allocation",
       .type = SettingType::kText,
       .fallback = std::string("vmm"),
       .doc = "How the daemon allocates GPU buffers: \"vmm\" (cuMemCreate) or \"legacy\" "
              "(cuMemAlloc). UCX up to 1.22 needs \"legacy\" to lend them to other daemons of the "
              "host by cuda_ipc."},
      {.key = "scatter",
       .type = SettingType::kText,
       .fallback = std::string("auto"),
       .doc = "How the ranges of one transfer are gathered and scattered: \"kernel\" (a small "
              "kernel on the GPU), \"copy-engine\" (one copy per range), or \"auto\" (the kernel "
              "if the ranges are short). With \"copy-engine\", the GPU does not compute "
              "checksums of its memory either: a processor does.",
       .choices = {"auto", "kernel", "copy-engine"}},
  };
}

Result<Scattering> ParseScattering(const std::string& text) {
  if (text == "auto") return Scattering::kAuto;
  if (text == "kernel") return Scattering::kKernel;
  if (text == "copy-engine") return Scattering::kCopyEngine;
  return Status(Code::kInvalidArgument, reasons::kBadConfig,
                "[cuda] scatter = \"" + text + "\" is not known",
                "write \"auto\", \"kernel\" or \"copy-engine\"");
}

// NVIDIA's management library is opened when it is first asked; a machine may be without it.
class LazyNvlink {
 public:
  std::optional<uint64_t> Sent(const std::string& uuid) {
    const auto library = Library();
    return library == nullptr ? std::nullopt : library->SentBytes(uuid);
  }
  std::optional<bool> Joins(const std::string& uuid, const std::string& other) {
    const auto library = Library();
    return library == nullptr ? std::nullopt : library->Joins(uuid, other);
  }

 private:
  std::shared_ptr<shim::Nvlink> Library() {
    std::call_once(once_, [this] {
      Result<std::shared_ptr<shim::Nvlink>> opened = shim::Nvlink::Open();
      if (opened.ok()) library_ = std::move(*opened);
    });
    return library_;
  }

  std::once_flag once_;
  std::shared_ptr<shim::Nvlink> library_;
};

NvlinkCounters CountersOfNvml() {
  const auto nvlink = std::make_shared<LazyNvlink>();
  return {[nvlink](const std::string& uuid) { return nvlink->Sent(uuid); },
          [nvlink](const std::string& uuid, const std::string& other) {
            return nvlink->Joins(uuid, other);
          }};
}

Result<Allocation> ParseAllocation(const std::string& text) {
  if (text == "vmm") return Allocation::kVmm;
  if (text == "legacy") return Allocation::kLegacy;
  return Status(Code::kInvalidArgument, reasons::kBadConfig,
                "[cuda] allocation = \"" + text + "\" is not known", "write \"vmm\" or \"legacy\"");
}

}  // namespace

Backend<Memory> Describe() {
  Backend<Memory> backend;
  backend.name = "cuda";
  backend.library = "cuda";
  backend.settings = Specs();
  backend.create = [](const BackendContext& context) -> Result<std::unique_ptr<Memory>> {
    CudaMemory::Options options;
    options.node = context.node;
    options.nvlink = CountersOfNvml();
    options.gpu.spin = std::chrono::microseconds(context.settings.Integer("spin_microseconds"));
    options.gpu.keep_open = std::chrono::seconds(context.settings.Integer("keep_open_seconds"));
    options.gpu.peer_chunk_bytes = context.settings.Bytes("peer_chunk");
    options.gpu.host_chunk_bytes = context.settings.Bytes("host_chunk");
    ONECOPY_ASSIGN_OR_RETURN(options.gpu.scatter,
                             ParseScattering(context.settings.Text("scatter")));
    ONECOPY_ASSIGN_OR_RETURN(options.allocation,
                             ParseAllocation(context.settings.Text("allocation")));
    return std::unique_ptr<Memory>(
        std::make_unique<CudaMemory>(std::move(options), shim::LoadCuda(context.library)));
  };
  return backend;
}

}  // namespace onecopy::cuda
