// How the lanes of a connection share a transfer's bytes.
#pragma once

#include <vector>

#include "daemon/plan/estimates.h"
#include "daemon/plan/wire.h"
#include "onecopy/capability.h"
#include "transport/core/contracts/link.h"

namespace onecopy::plan {

// How many steps further than "below one switch" a network device sits from that memory; of host
// memory, which is near to all, none.
unsigned Remoteness(const NodeCapability& node, const WireEnd& memory, const std::string& nic);

// A lane that is to carry bytes only where no lane with a higher rate can.
inline constexpr double kLastResort = 1;

// What each lane of a connection on which `destination` reads is believed to carry of this wire, in
// bytes per second: what its pair of devices was probed at, else what the slower of the two says of
// itself. 0 for a pair whose probe failed: not to be used while another lane can.
//
// Lanes whose devices are farther from the memories than the nearest are kLastResort, unless more
// was seen than the nearest carry together, by more than a tenth: over all lanes, or over one pair
// of them. A memory near to one of eight devices would else have seven eighths of its bytes cross
// what is between, and so take the place of those of the memories there.
//
// Where farther lanes count, they have the part that the nearest leave of what was seen, unless one
// of them is faster than any of the nearest. Rates within 10 % of the best count as equal, and of
// equals the lane whose devices are nearer comes a trifle before the others, so that it is the
// first to be given work.
std::vector<double> LaneRates(const Wire& wire, const std::vector<LaneInfo>& lanes,
                              const NodeCapability& source, const NodeCapability& destination,
                              const Estimates& estimates);

// Which of these lanes have their devices nearest to the memories, of those that may be used at all
// (a rate of LaneRates above 0), as a bool each; none where there is no such lane.
std::vector<bool> NearestLanes(const Wire& wire, const std::vector<LaneInfo>& lanes,
                               const std::vector<double>& rates, const NodeCapability& source,
                               const NodeCapability& destination);

}  // namespace onecopy::plan
