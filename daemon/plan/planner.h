// From what both ends can do to the path that is taken: a pure function, without state, clock or
// I/O.
//
// Every path of the ladder that fits the two ends is considered. One that cannot work is refused
// with its true reason; so is one that the policy excludes. Of the rest, the one with the highest
// estimated rate for this size is taken, and within 10 % of it the one with the fewest copies; what
// was passed over for speed is refused as SLOWER_MEASURED or SLOWER_ESTIMATED, with both figures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/plan/estimates.h"
#include "daemon/plan/path.h"
#include "daemon/plan/wire.h"
#include "transport/core/capability.h"
#include "transport/core/refusal.h"
#include "transport/core/result.h"

namespace onecopy::plan {

// One end of a transfer: where its bytes are.
struct End {
  const NodeCapability* node = nullptr;  // valid during the call
  std::string kind;
  std::string device;
};

// A way to go that turned out impossible although it seemed to work: its preparation failed.
struct Exclusion {
  Refusal refusal;        // of the path of that name, as it is shown
  std::string link = {};  // empty inside a node
  bool source_staged = false;
  bool destination_staged = false;
  bool whole_link = false;  // the link does not connect at all, whatever the path

  static Exclusion Of(const Path& path, const Status& failure);
  bool Covers(const Path& path) const;
};

struct Request {
  End source;
  End destination;
  uint64_t bytes = 0;
  // Into how many pieces without a gap the payload falls at each end.
  uint64_t source_pieces = 1;
  uint64_t destination_pieces = 1;
  Policy policy;
  Estimates estimates;
  // A path that keeps another way, by another link or staged elsewhere, is not refused for one.
  std::vector<Exclusion> excluded;
};

// INVALID_ARGUMENT (BAD_POLICY) for a glob that fits no path at all or a link that does not exist
// anywhere; FAILED_PRECONDITION (POLICY_UNMET), with every refusal, when nothing acceptable works.
Result<Plan> MakePlan(const Request& request);

// The wires whose speed decides which path MakePlan takes, the fastest by estimate first. None
// where there is nothing to decide: all acceptable paths cross the same wire, or there is nothing
// to move.
std::vector<Wire> ContendingWires(const Request& request);

}  // namespace onecopy::plan
