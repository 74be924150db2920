#include "transport/core/ranges/range_groups.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

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
  std::vector<uint32_t> numbers = {};  // of each in the request
};

// Both forms of ranges alike: how many there are, their buffers, and what is made of some of them.
class PairedRanges {
 public:
  explicit PairedRanges(std::span<const RangePair> pairs) : pairs_(pairs) {}

  size_t size() const { return pairs_.size(); }
  uint32_t source(size_t i) const { return pairs_[i].source_buffer; }
  uint32_t destination(size_t i) const { return pairs_[i].destination_buffer; }
  bool one_pair() const {
    return std::all_of(pairs_.begin(), pairs_.end(), [](const RangePair& pair) {
      return pair.source_buffer == 0 && pair.destination_buffer == 0;
    });
  }

  Result<ScatterRef> TakeAll(uint64_t asked) { return Scatter::Make(pairs_, {}, asked); }
  Result<ScatterRef> Some(std::span<const uint32_t> numbers, uint64_t asked,
                          OverlapBudget* budget) const {
    std::vector<RangePair> some;
    some.reserve(numbers.size());
    for (const uint32_t number : numbers) some.push_back(pairs_[number]);
    return Scatter::Make(some, numbers, asked, budget);
  }

 private:
  std::span<const RangePair> pairs_;
};

class EqualColumns {
 public:
  explicit EqualColumns(EqualRanges ranges) : ranges_(std::move(ranges)) {}

  size_t size() const { return ranges_.sources.size(); }
  uint32_t source(size_t i) const { return Number(ranges_.source_buffers, i); }
  uint32_t destination(size_t i) const { return Number(ranges_.destination_buffers, i); }
  bool one_pair() const {
    const auto first = [](const std::vector<uint32_t>& numbers) {
      return std::all_of(numbers.begin(), numbers.end(), [](uint32_t one) { return one == 0; });
    };
    return first(ranges_.source_buffers) && first(ranges_.destination_buffers);
  }

  Result<ScatterRef> TakeAll(uint64_t asked) {
    return Scatter::MakeEqual(std::move(ranges_.sources), std::move(ranges_.destinations),
                              ranges_.bytes, {}, asked);
  }
  Result<ScatterRef> Some(std::span<const uint32_t> numbers, uint64_t asked,
                          OverlapBudget* budget) const {
    const auto of = [numbers](const std::vector<uint64_t>& all) {
      std::vector<uint64_t> some;
      some.reserve(numbers.size());
      for (const uint32_t number : numbers) some.push_back(all[number]);
      return some;
    };
    return Scatter::MakeEqual(of(ranges_.sources), of(ranges_.destinations), ranges_.bytes, numbers,
                              asked, budget);
  }

 private:
  static uint32_t Number(const std::vector<uint32_t>& numbers, size_t i) {
    return numbers.empty() ? 0 : numbers[i];
  }

  EqualRanges ranges_;
};

template <typename Ranges>
Result<std::vector<Members>> Sort(const Ranges& ranges, size_t sources, size_t destinations) {
  std::vector<Members> groups;
  std::unordered_map<uint64_t, size_t> places;
  const auto key_of = [&ranges](size_t i) {
    return uint64_t{ranges.source(i)} << 32 | ranges.destination(i);
  };
  size_t place = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    // Neighbours in the request are mostly of one group.
    if (i == 0 || key_of(i) != key_of(i - 1)) {
      const uint32_t source = ranges.source(i);
      const uint32_t destination = ranges.destination(i);
      if (source >= sources) return NoSuchBuffer("source", i, source, sources);
      if (destination >= destinations) {
        return NoSuchBuffer("destination", i, destination, destinations);
      }
      const auto [known, added] = places.try_emplace(key_of(i), groups.size());
      place = known->second;
      if (added) groups.push_back({source, destination});
    }
    groups[place].numbers.push_back(static_cast<uint32_t>(i));
  }
  return groups;
}

template <typename Ranges>
Result<RangeGroups> Group(Ranges ranges, size_t sources, size_t destinations, uint64_t asked) {
  const size_t count = ranges.size();
  if (count == 0 || count > kMaxRanges) {
    return Status(
        Code::kInvalidArgument, reasons::kBadArgument,
        std::to_string(count) + " ranges; a transfer takes 1 to " + std::to_string(kMaxRanges),
        "split the request");
  }
  RangeGroups made;
  made.asked = asked == 0 ? count : asked;
  std::vector<RangeGroup>& groups = made.groups;
  if (ranges.one_pair()) {
    ONECOPY_ASSIGN_OR_RETURN(ScatterRef all, ranges.TakeAll(made.asked));
    groups.push_back({0, 0, std::move(all)});
    return made;
  }
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<Members> sorted, Sort(ranges, sources, destinations));
  if (sorted.size() > kMaxBuffers) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  "the ranges make " + std::to_string(sorted.size()) +
                      " pairs of a source's and a destination's buffer; a transfer takes up to " +
                      std::to_string(kMaxBuffers),
                  "split the request");
  }
  OverlapBudget budget;
  for (const Members& group : sorted) {
    const uint64_t here = sorted.size() == 1 ? made.asked : group.numbers.size();
    ONECOPY_ASSIGN_OR_RETURN(ScatterRef some, ranges.Some(group.numbers, here, &budget));
    groups.push_back({group.source, group.destination, std::move(some)});
  }
  ONECOPY_RETURN_IF_ERROR(CheckGroupsApart(groups, &budget));
  return made;
}

}  // namespace

Result<RangeGroups> GroupRanges(std::span<const RangePair> pairs, size_t sources,
                                size_t destinations, uint64_t asked) {
  return Group(PairedRanges(pairs), sources, destinations, asked);
}

Result<RangeGroups> GroupRanges(EqualRanges ranges, size_t sources, size_t destinations,
                                uint64_t asked) {
  ONECOPY_RETURN_IF_ERROR(CheckColumns(ranges));
  return Group(EqualColumns(std::move(ranges)), sources, destinations, asked);
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
