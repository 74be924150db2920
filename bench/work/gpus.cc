#include "bench/work/gpus.h"

#include <algorithm>

#include "onecopy/reasons.h"

namespace onecopy::bench {
namespace {

Result<std::vector<MemoryCapability>> LentGpus(Client& client, const Node& node) {
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<BufferInfo> buffers, client.ListBuffers(node.name));
  std::vector<MemoryCapability> gpus;
  for (const BufferInfo& buffer : buffers) {
    if (buffer.name.rfind(kLentPrefix, 0) != 0 || buffer.memory != "cuda") continue;
    MemoryCapability gpu;
    gpu.kind = buffer.memory;
    gpu.device = buffer.device;
    gpus.push_back(std::move(gpu));
  }
  if (!gpus.empty()) return gpus;
  return Status(Code::kFailedPrecondition, reasons::kNoGpu, "no GPU memory is lent on " + node.name,
                "run onecopy-bench lend there, on a machine with a GPU");
}

}  // namespace

Result<std::vector<MemoryCapability>> UsableGpus(const Node& at) {
  ONECOPY_ASSIGN_OR_RETURN(Client client, at.Connect());
  if (at.elsewhere) return LentGpus(client, at);
  ONECOPY_ASSIGN_OR_RETURN(const NodeInfo node, client.GetNode());
  std::vector<MemoryCapability> gpus;
  Viability none = Viability::No(reasons::kNoGpu, "the daemon has no memory of kind cuda");
  if (node.capabilities) {
    for (const MemoryCapability& memory : node.capabilities->memories) {
      if (memory.kind != "cuda") continue;
      if (memory.viability.viable) {
        gpus.push_back(memory);
      } else {
        none = memory.viability;
      }
    }
  }
  if (gpus.empty()) {
    return Status(Code::kFailedPrecondition, none.reason, none.detail, none.remedy);
  }
  std::sort(gpus.begin(), gpus.end(),
            [](const auto& a, const auto& b) { return a.ordinal < b.ordinal; });
  return gpus;
}

Status CheckPeers(const std::vector<MemoryCapability>& gpus) {
  if (gpus.size() < 2) {
    return {Code::kFailedPrecondition, reasons::kNoGpu, "this needs two GPUs, and there is one"};
  }
  const auto& reached = gpus[0].direct_peers;
  if (std::find(reached.begin(), reached.end(), gpus[1].device) != reached.end()) {
    return OkStatus();
  }
  return {Code::kFailedPrecondition, reasons::kNoPeerAccess,
          gpus[0].device + " does not reach the memory of " + gpus[1].device};
}

}  // namespace onecopy::bench
