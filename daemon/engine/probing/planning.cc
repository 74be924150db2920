#include "daemon/engine/probing/planning.h"

#include <algorithm>

#include "daemon/plan/lane_rates.h"
#include "transport/core/reasons.h"

namespace onecopy::engine {

const NodeCapability* Planning::Find(const std::string& node) const {
  return context_.IsSelf(node) ? &catalog_.capabilities() : peers_.Capabilities(node);
}

Result<plan::Request> Planning::RequestFor(const std::string& source_node,
                                           const plan::WireEnd& source, const Place& destination,
                                           uint64_t bytes) const {
  const NodeCapability* const there = Find(source_node);
  if (there == nullptr) {
    return Status(Code::kUnavailable, reasons::kPeerDown,
                  "node " + source_node + " does not answer");
  }
  plan::Request request;
  request.source = {there, source.kind, source.device};
  request.destination = {&catalog_.capabilities(), destination.kind, destination.device};
  request.bytes = bytes;
  request.estimates = probes_.EstimatesFor(there->node);
  return request;
}

Planning::Lanes Planning::ChooseLanes(const std::string& source_node, const plan::Wire& wire,
                                      const std::vector<LaneInfo>& lanes) const {
  const NodeCapability* const there = Find(source_node);
  if (there == nullptr || lanes.size() < 2) return {};
  const NodeCapability& here = catalog_.capabilities();
  Lanes chosen;
  chosen.rates = plan::LaneRates(wire, lanes, *there, here, probes_.EstimatesFor(source_node));
  const std::vector<bool> near = plan::NearestLanes(wire, lanes, chosen.rates, *there, here);
  if (std::find(near.begin(), near.end(), false) == near.end()) return chosen;
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (!near[i]) continue;
    chosen.nics_here.push_back(lanes[i].device);
    chosen.nics_there.push_back(lanes[i].peer_device);
  }
  return chosen;
}

}  // namespace onecopy::engine
