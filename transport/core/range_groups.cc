#include "transport/core/range_groups.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

#include "onecopy/reasons.h"

namespace onecopy {
namespace {

Status NoSuchBuffer(const char* which, size_t range, uint32_t number, size_t buffers) {
  return {Code::kInvalidArgument, reasons::kBadArgument,
          std::string(which) + " range " + std::to_string(range) + " is in buffer " +
              std::to_string(number) + ", and the request names " + std::to_string(buffers) +
              " there",
          "number the buffers from 0, in the order in which the request names them"};
}

struct Members {
  uint32_t source = 0;
  uint32_t destination = 0;
  std::vector<RangePair> pairs = {};
  std::vector<uint32_t> numbers = {};  // of each in the request
};

Result<std::vector<Members>> Sort(std::span<const RangePair> pairs, size_t sources,
                                  size_t destinations) {
  std::vector<Members> groups;
  std::unordered_map<uint64_t, size_t> places;
  const auto key_of = [](const RangePair& pair) {
    return uint64_t{pair.source_buffer} << 32 | pair.destination_buffer;
  };
  size_t place = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const RangePair& pair = pairs[i];
    // Neighbours in the request are mostly of one group.
    if (i == 0 || key_of(pair) != key_of(pairs[i - 1])) {
      if (pair.source_buffer >= sources) {
        return NoSuchBuffer("source", i, pair.source_buffer, sources);
      }
      if (pair.destination_buffer >= destinations) {
        return NoSuchBuffer("destination", i, pair.destination_buffer, destinations);
      }
      const auto [known, added] = places.try_emplace(key_of(pair), groups.size());
      place = known->second;
      if (added) groups.push_back({pair.source_buffer, pair.destination_buffer});
    }
    groups[place].pairs.push_back(pair);
    groups[place].numbers.push_back(static_cast<uint32_t>(i));
  }
  return groups;
}

}  // namespace

Result<RangeGroups> GroupRanges(std::span<const RangePair> pairs, size_t sources,
                                size_t destinations, uint64_t asked) {
  if (pairs.empty() || pairs.size() > kMaxRanges) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  std::to_string(pairs.size()) + " ranges; a transfer takes 1 to " +
                      std::to_string(kMaxRanges),
                  "split the request");
  }
  RangeGroups made;
  made.asked = asked == 0 ? pairs.size() : asked;
  std::vector<RangeGroup>& groups = made.groups;
  const bool one = std::all_of(pairs.begin(), pairs.end(), [](const RangePair& pair) {
    return pair.source_buffer == 0 && pair.destination_buffer == 0;
  });
  if (one) {
    ONECOPY_ASSIGN_OR_RETURN(ScatterRef ranges, Scatter::Make(pairs, {}, made.asked));
    groups.push_back({0, 0, std::move(ranges)});
    return made;
  }
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<Members> sorted, Sort(pairs, sources, destinations));
  if (sorted.size() > kMaxBuffers) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  "the ranges make " + std::to_string(sorted.size()) +
                      " pairs of a source's and a destination's buffer; a transfer takes up to " +
                      std::to_string(kMaxBuffers),
                  "split the request");
  }
  OverlapBudget budget;
  for (const Members& group : sorted) {
    const uint64_t here = sorted.size() == 1 ? made.asked : group.pairs.size();
    ONECOPY_ASSIGN_OR_RETURN(ScatterRef ranges,
                             Scatter::Make(group.pairs, group.numbers, here, &budget));
    groups.push_back({group.source, group.destination, std::move(ranges)});
  }
  ONECOPY_RETURN_IF_ERROR(CheckGroupsApart(groups, &budget));
  return made;
}

Status CheckGroupsApart(std::span<const RangeGroup> groups, OverlapBudget* budget) {
  std::map<uint32_t, std::vector<PlacedLayout>> by_buffer;
  for (const RangeGroup& group : groups) {
    const Layout& layout = group.ranges->destination;
    by_buffer[group.destination].push_back({&layout, layout.extent().offset, layout.bytes()});
  }
  for (const auto& [buffer, layouts] : by_buffer) {
    if (layouts.size() == 1) continue;
    ONECOPY_RETURN_IF_ERROR(
        CheckAllApart(layouts,
                      "ranges from several source buffers overlap in destination buffer " +
                          std::to_string(buffer),
                      budget));
  }
  return OkStatus();
}

}  // namespace onecopy
