// What the planner has to know of a transfer to this node, from all that is known here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/catalog.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/probing/probes.h"
#include "daemon/plan/planner.h"
#include "transport/core/contracts/link.h"

namespace onecopy::engine {

// Engine thread.
class Planning {
 public:
  Planning(const Context& context, const Catalog& catalog, const Peers& peers, const Probes& probes)
      : context_(context), catalog_(catalog), peers_(peers), probes_(probes) {}

  // Of memory of that node, which may be this one, to a place here. UNAVAILABLE (PEER_DOWN) for a
  // node of which nothing is known.
  Result<plan::Request> RequestFor(const std::string& source_node, const plan::WireEnd& source,
                                   const Place& destination, uint64_t bytes) const;

  // How the lanes of a connection from that node share the bytes of a wire.
  struct Lanes {
    std::vector<double> rates;  // see plan::LaneRates; empty: all alike
    // Devices of the lanes that are nearest to the memories; empty: those of all lanes.
    std::vector<std::string> nics_here;
    std::vector<std::string> nics_there;
  };
  Lanes ChooseLanes(const std::string& source_node, const plan::Wire& wire,
                    const std::vector<LaneInfo>& lanes) const;

 private:
  const NodeCapability* Find(const std::string& node) const;

  const Context& context_;
  const Catalog& catalog_;
  const Peers& peers_;
  const Probes& probes_;
};

}  // namespace onecopy::engine
