// From what both ends can do to the path that is taken: a pure function, without state, clock or
// I/O.
//
// Every path of the ladder that fits the two ends is considered. One that cannot work is refused
// with its true reason; so is one that the policy excludes. Of the rest, the one with the highest
// estimated rate for this size is taken, and within 10 % of it the one with the fewest copies; what
// was passed over for speed is refused as SLOWER_MEASURED or SLOWER_ESTIMATED, with both figures
// and what they rest on.
//
// What transfers made of a whole path counts before what a probe found of its wire, and that before
// the table. A single transfer that was slower than all that lets expect may have met with anything
// and does not count; a single faster one does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/plan/estimates.h"
#include "daemon/plan/file_end.h"
#include "daemon/plan/path.h"
#include "daemon/plan/wire.h"
#include "onecopy/capability.h"
#include "onecopy/result.h"
#include "onecopy/status.h"

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
  std::optional<FileEnd> file;  // where one of these is one
  uint64_t bytes = 0;
  // Into how many pieces without a gap the payload falls at each end.
  uint64_t source_pieces = 1;
  uint64_t destination_pieces = 1;
  Policy policy;
  Estimates estimates;
  // Whether a path that its transfers have shown to be slow, and that would be taken otherwise, may
  // be taken once more, within PathRate::spare_seconds.
  bool may_try_again = false;
  // A path that keeps another way, by another link or staged elsewhere, is not refused for one.
  std::vector<Exclusion> excluded;
};

// INVALID_ARGUMENT (BAD_POLICY) for a glob that fits no path at all or a link that does not exist
// anywhere; FAILED_PRECONDITION (POLICY_UNMET), with every refusal, when nothing acceptable works.
Result<Path> MakePlan(const Request& request);

// The wires that acceptable paths cross, the fastest by estimate first; none for nothing to move.
std::vector<Wire> AcceptableWires(const Request& request);
// Those whose speed decides which path MakePlan takes: none where there is nothing to decide, as
// all acceptable paths cross the same wire.
std::vector<Wire> ContendingWires(const Request& request);

}  // namespace onecopy::plan
