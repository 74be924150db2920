#include <algorithm>

#include "daemon/plan/candidates.h"
#include "daemon/plan/route.h"
#include "transport/core/reasons.h"

namespace onecopy::plan {
namespace {

Assessment Offer(const Rung& rung, const Ends& ends, Staging staging, bool needless) {
  return {.candidates = {{.path = PathInNode(rung, ends, staging), .needless = needless}},
          .refusal = {}};
}

}  // namespace

Assessment AssessInNode(const Rung& rung, const Ends& ends) {
  const std::string source = Describe(ends.source, ends.source_node);
  const std::string destination = Describe(ends.destination, ends.destination_node);
  if (!ends.InOneNode()) {
    const std::string nodes = ends.source_node.node + " and " + ends.destination_node.node;
    if (ends.OnOneHost()) {
      return Refused(rung, reasons::kOtherNode,
                     nodes +
                         " are two daemons of one host, and memory is not shared between "
                         "daemons",
                     "keep both buffers on one of the two daemons");
    }
    return Refused(rung, reasons::kOtherNode, nodes + " are two nodes");
  }
  const bool two_devices = !IsHost(ends.source) && !IsHost(ends.destination) &&
                           StepName(ends.source) != StepName(ends.destination);
  const bool two_gpus = two_devices && IsGpu(ends.source) && IsGpu(ends.destination);
  if (two_devices && !two_gpus && rung.shape != Shape::kBounce) {
    return Refused(rung, reasons::kNotApplicable,
                   "nothing copies between " + source + " and " + destination + " in one pass",
                   "peer-bounce goes through host memory");
  }
  if (rung.carrier == Carrier::kLocal) {
    if (!two_gpus) return Offer(rung, ends, {}, false);
    return Refused(rung, reasons::kNotApplicable,
                   source + " and " + destination + " are two GPUs: peer-direct is their one copy");
  }
  if (rung.shape == Shape::kBounce) return Offer(rung, ends, {.source = true}, !two_devices);
  if (!two_gpus) {
    return Refused(rung, reasons::kNotApplicable,
                   IsHost(ends.source) ? source + " is not a GPU's: local is the one copy"
                   : IsHost(ends.destination)
                       ? destination + " is not a GPU's: local is the one copy"
                       : "both ends are on " + source + ": local is the one copy");
  }
  const std::vector<std::string>& peers = ends.source.direct_peers;
  if (std::find(peers.begin(), peers.end(), ends.destination.device) == peers.end()) {
    return Refused(rung, reasons::kNoPeerAccess,
                   source + " cannot reach the memory of " + ends.destination.device +
                       ": the driver offers no peer access between the two",
                   "use GPUs joined by NVLink, or on one PCIe root with ACS off and a driver that "
                   "allows P2P (nvidia-smi topo -p2p r)");
  }
  return Offer(rung, ends, {}, false);
}

}  // namespace onecopy::plan
