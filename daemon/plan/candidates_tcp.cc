#include <algorithm>

#include "daemon/plan/candidates.h"
#include "daemon/plan/nic_pairs.h"
#include "daemon/plan/route.h"
#include "transport/core/reasons.h"

namespace onecopy::plan {
namespace {

const std::string kTcp = "tcp";

// Why the node cannot use the link; viable where it can.
Viability LinkOf(const NodeCapability& node) {
  const LinkCapability* link = node.FindLink(kTcp);
  if (link == nullptr) {
    return Viability::No(reasons::kLinkMissing, node.node + " has no link tcp",
                         "run an onecopyd with the tcp link on " + node.node);
  }
  Viability why = link->viability;
  if (!why.viable) why.detail = "tcp of " + node.node + ": " + why.detail;
  return why;
}

// Sockets share the wire with RDMA, so where their own devices do not tell their speed, an RDMA
// device's is the limit. Without it, a guess for TCP would beat a slow RDMA device of known speed.
uint64_t WireLimit(const Ends& ends) {
  if (ends.OnOneHost()) return 0;
  uint64_t rdma = 0;
  for (const LinkCapability& link : ends.source_node.links) {
    const LinkCapability* there = ends.destination_node.FindLink(link.name);
    if (there == nullptr) continue;
    const uint64_t limit = FastestWire(link, *there);
    if (link.name == kTcp && limit != 0) return limit;
    rdma = std::max(rdma, limit);
  }
  return rdma;
}

}  // namespace

Assessment AssessTcp(const Rung& rung, const Ends& ends) {
  Viability links = Both(LinkOf(ends.source_node), LinkOf(ends.destination_node));
  if (!links.viable) return Refused(rung, std::move(links));
  const bool source_reachable = ends.source.cpu_addressable;
  const bool destination_reachable = ends.destination.cpu_addressable;
  const std::string source = Describe(ends.source, ends.source_node);
  const std::string destination = Describe(ends.destination, ends.destination_node);
  const std::string hidden = source_reachable        ? destination
                             : destination_reachable ? source
                                                     : source + " and " + destination;
  Staging staging;
  switch (rung.shape) {
    case Shape::kDirect:
      if (!source_reachable || !destination_reachable) {
        return Refused(rung, reasons::kNotApplicable,
                       "sockets cannot reach the memory of " + hidden,
                       "use host memory, or a path that stages GPU memory");
      }
      break;
    case Shape::kBounce:
      if (!source_reachable && !destination_reachable) {
        return Refused(
            rung, reasons::kNotApplicable,
            "sockets cannot reach the memory of " + hidden + ", and a bounce stages one end only");
      }
      // With both within reach it is taken when named; a GPU's end gains more than host memory.
      staging.source = !source_reachable || (destination_reachable &&
                                             (!IsHost(ends.source) || IsHost(ends.destination)));
      staging.destination = !staging.source;
      break;
    case Shape::kStaged:
      staging = {.source = true, .destination = true};
      break;
  }
  return {.candidates = {{.path = PathOverLink(rung, ends, kTcp, staging, false),
                          .needless = staging.Needless(ends),
                          // The processor reads and writes whatever it reaches alike.
                          .wire = {kTcp, {"host", {}}, {"host", {}}},
                          .wire_bytes_per_second = WireLimit(ends)}},
          .refusal = {}};
}

}  // namespace onecopy::plan
