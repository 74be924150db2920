// How the lanes of a connection share a transfer's bytes.
#pragma once

#include <vector>

#include "daemon/plan/estimates.h"
#include "daemon/plan/wire.h"
#include "onecopy/capability.h"
#include "transport/core/link.h"

namespace onecopy::plan {

// How many steps further than "below one switch" a network device sits from that memory; of host
// memory, which is near to all, none.
unsigned Remoteness(const NodeCapability& node, const WireEnd& memory, const std::string& nic);

// What each lane of a connection on which `destination` reads is believed to carry of this wire, in
// bytes per second: what its pair of devices was probed at, else what the slower of the two says of
// itself. 0 for a pair whose probe failed: not to be used while another lane can. Rates within 10 %
// of the best count as equal, and of equals the lane whose devices are nearer to the memories comes
// a trifle before the others, so that it is the first to be given work.
std::vector<double> LaneRates(const Wire& wire, const std::vector<LaneInfo>& lanes,
                              const NodeCapability& source, const NodeCapability& destination,
                              const Estimates& estimates);

// Which of these lanes have their devices nearest to the memories, of those that may be used at all
// (a rate of LaneRates above 0), as a bool each; none where there is no such lane.
std::vector<bool> NearestLanes(const Wire& wire, const std::vector<LaneInfo>& lanes,
                               const std::vector<double>& rates, const NodeCapability& source,
                               const NodeCapability& destination);

}  // namespace onecopy::plan
