// The ranges of a request of several buffers, by pair of buffers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "onecopy/range.h"
#include "onecopy/result.h"
#include "transport/core/ranges/scatter.h"

namespace onecopy {

// The ranges that go from one of a request's source buffers to one of its destination buffers, by
// their numbers there.
struct RangeGroup {
  uint32_t source = 0;
  uint32_t destination = 0;
  ScatterRef ranges;
};

struct RangeGroups {
  std::vector<RangeGroup> groups = {};  // empty: all of the only source
  uint64_t asked = 0;                   // ranges, as asked for

  bool empty() const { return groups.empty(); }
};

// In the order in which each pair of buffers comes first; inside a group the ranges keep theirs.
// Fails as Scatter::Make does, with each range's number in `pairs`; with INVALID_ARGUMENT
// (BAD_ARGUMENT) for a number that is none of the `sources` or `destinations` buffers, for more
// than kMaxRanges ranges, and for more than kMaxBuffers pairs of buffers; as CheckGroupsApart does.
// `asked`: ranges that these were folded from, by the client's word; 0: as many as there are. Slow
// for many ranges: milliseconds.
Result<RangeGroups> GroupRanges(std::span<const RangePair> pairs, size_t sources,
                                size_t destinations, uint64_t asked = 0);

// Likewise; INVALID_ARGUMENT (BAD_ARGUMENT) for columns of unlike lengths, too.
Result<RangeGroups> GroupRanges(EqualRanges ranges, size_t sources, size_t destinations,
                                uint64_t asked = 0);

// INVALID_ARGUMENT (RANGES_OVERLAP) where two groups write one byte of one destination buffer,
// which is told by its number; RESOURCE_EXHAUSTED (QUOTA) where the budget does not last. Each
// group's own ranges have been checked.
Status CheckGroupsApart(std::span<const RangeGroup> groups, OverlapBudget* budget);

}  // namespace onecopy
