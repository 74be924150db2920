// The ranges of a request, by pair of buffers.
#include "transport/core/ranges/range_groups.h"

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using namespace onecopy;

namespace {

std::vector<RangePair> Numbered() {
  return {{{0, 10}, {0, 10}, 1, 0},
          {{50, 10}, {0, 10}, 0, 2},
          {{20, 5}, {20, 5}, 1, 0},
          {{70, 10}, {10, 10}, 0, 2}};
}

}  // namespace

TEST_CASE("ranges are grouped by their buffers, in the order in which these come") {
  const auto made = GroupRanges(Numbered(), 2, 3);
  REQUIRE_OK(made);
  CHECK(made->asked == 4);
  REQUIRE(made->groups.size() == 2);
  CHECK(made->groups[0].source == 1);
  CHECK(made->groups[0].destination == 0);
  CHECK(made->groups[0].ranges->source.bytes() == 15);
  CHECK(made->groups[0].ranges->ranges == 2);
  CHECK(made->groups[1].source == 0);
  CHECK(made->groups[1].destination == 2);
  CHECK(made->groups[1].ranges->source.extent() == ByteRange{50, 30});
  // Two neighbours at the destination, and not at the source.
  CHECK(made->groups[1].ranges->merged_ranges == 2);
}

TEST_CASE("ranges of one pair of buffers are one group, with the number that was asked for") {
  const auto made = GroupRanges(std::vector<RangePair>{{{0, 4, 8, 100}, {0, 400}}}, 1, 1, 100);
  REQUIRE_OK(made);
  REQUIRE(made->groups.size() == 1);
  CHECK(made->asked == 100);
  CHECK(made->groups[0].ranges->ranges == 100);
}

TEST_CASE("a range that is wrong is named by its number in the request") {
  const auto refused = [](auto spoil, size_t sources = 2, size_t destinations = 3) {
    std::vector<RangePair> pairs = Numbered();
    spoil(pairs);
    return GroupRanges(pairs, sources, destinations).status();
  };
  const auto nothing = [](std::vector<RangePair>&) {};
  const auto names = [](const Status& status, const std::string& what) {
    INFO(status.ToString());
    return status.message().find(what) != std::string::npos;
  };
  CHECK(names(refused(nothing, 1, 3), "source range 0 is in buffer 1, and the request names 1"));
  CHECK(names(refused(nothing, 2, 2), "destination range 1 is in buffer 2"));
  CHECK(names(refused([](auto& pairs) { pairs[3].source.bytes = 9; }), "source range 3 has 9"));
  CHECK(names(refused([](auto& pairs) { pairs[2].destination.bytes = 0; }),
              "destination range 2 has no bytes"));
  CHECK(refused([](auto& pairs) { pairs[3].source.offset = ~uint64_t{0}; }).reason() ==
        reasons::kRangeOutOfBuffer);
  // From different sources into one place.
  const Status overlap =
      refused([](auto& pairs) { pairs[1].destination_buffer = pairs[3].destination_buffer = 0; });
  CHECK(overlap.reason() == reasons::kRangesOverlap);
  CHECK(names(overlap, "several source buffers overlap in destination buffer 0"));
  CHECK(refused([](auto& pairs) { pairs.clear(); }).reason() == reasons::kBadArgument);
  CHECK(refused([](auto& pairs) { pairs.resize(kMaxRanges + 1, pairs[0]); }).reason() ==
        reasons::kBadArgument);
}

TEST_CASE("ranges of one length are grouped, and refused, as others are") {
  const EqualRanges ranges{10, {0, 50, 20, 70}, {0, 0, 20, 10}, {1, 0, 1, 0}, {0, 2, 0, 2}};
  const auto made = GroupRanges(ranges, 2, 3);
  REQUIRE_OK(made);
  CHECK(made->asked == 4);
  REQUIRE(made->groups.size() == 2);
  CHECK(made->groups[0].source == 1);
  CHECK(made->groups[0].ranges->source.extent() == ByteRange{0, 30});
  CHECK(made->groups[1].destination == 2);
  CHECK(made->groups[1].ranges->destination.contiguous());
  struct Case {
    const char* what;
    void (*spoil)(EqualRanges&);
    std::string_view reason;
    std::string says;
  };
  const Case cases[] = {
      {"no such buffer", [](EqualRanges& one) { one.source_buffers[2] = 2; }, reasons::kBadArgument,
       "source range 2 is in buffer 2"},
      {"beyond 64 bits", [](EqualRanges& one) { one.sources[3] = ~uint64_t{0}; },
       reasons::kRangeOutOfBuffer, "source range 3 ends beyond"},
      {"overlap", [](EqualRanges& one) { one.destinations[2] = 9; }, reasons::kRangesOverlap,
       "destination ranges overlap"},
      {"overlap of two sources",
       [](EqualRanges& one) {
         one.destination_buffers = {0, 0, 0, 0};
       },
       reasons::kRangesOverlap, "several source buffers overlap in destination buffer 0"},
      {"no length", [](EqualRanges& one) { one.bytes = 0; }, reasons::kBadSize, "has no bytes"},
      {"unlike columns", [](EqualRanges& one) { one.destinations.pop_back(); },
       reasons::kBadArgument, "4 sources, 3 destinations"},
      {"unlike numbers", [](EqualRanges& one) { one.source_buffers.pop_back(); },
       reasons::kBadArgument, "3 and 4 numbers"},
  };
  for (const Case& bad : cases) {
    EqualRanges spoilt = ranges;
    bad.spoil(spoilt);
    const Status refused = GroupRanges(spoilt, 2, 3).status();
    INFO(bad.what << ": " << refused.ToString());
    CHECK(refused.reason() == bad.reason);
    CHECK(refused.message().find(bad.says) != std::string::npos);
  }
  CHECK(GroupRanges(EqualRanges{.bytes = 1}, 1, 1).status().reason() == reasons::kBadArgument);
}

TEST_CASE("there are only so many pairs of buffers") {
  std::vector<RangePair> pairs;
  for (uint32_t i = 0; i <= kMaxBuffers; ++i) {
    pairs.push_back({{i * 8, 8}, {i * 8, 8}, i % 4096, i / 4096});
  }
  const Status refused = GroupRanges(pairs, 4096, 4096).status();
  CHECK(refused.code() == Code::kInvalidArgument);
  CHECK(refused.message().find("4097 pairs") != std::string::npos);
  pairs.pop_back();
  CHECK(GroupRanges(pairs, 4096, 4096).ok());
}

TEST_CASE("as many ranges as there may be, in any order, are seen to be apart or not") {
  std::vector<RangePair> pairs;
  for (uint64_t i = 0; i < kMaxRanges; ++i) {
    const uint64_t there = i * 617 % kMaxRanges;
    pairs.push_back({{i * 32, 16}, {there * 32, 16}, static_cast<uint32_t>(i % 7), 0});
  }
  const auto made = GroupRanges(pairs, 7, 1);
  REQUIRE_OK(made);
  CHECK(made->groups.size() == 7);
  pairs[77'777].destination.offset += 20;
  CHECK(GroupRanges(pairs, 7, 1).status().reason() == reasons::kRangesOverlap);
}

TEST_CASE("strided ranges that are interleaved many times over are told apart") {
  // A thousand columns of one table: the extents of all of them overlap.
  std::vector<RangePair> pairs;
  for (uint64_t i = 0; i < 1000; ++i) {
    pairs.push_back({{i * 800, 8, 8, 100}, {i * 8, 8, 8000, 100}});
  }
  CHECK(GroupRanges(pairs, 1, 1).ok());
  pairs[500].destination.offset += 4;
  CHECK(GroupRanges(pairs, 1, 1).status().reason() == reasons::kRangesOverlap);
}

TEST_CASE("what it takes to tell interleaved ranges apart is bounded for all buffers together") {
  // Of one buffer that is quick enough, and of a hundred it is not.
  const auto made = [](uint32_t buffers) {
    std::vector<RangePair> pairs;
    for (uint32_t buffer = 0; buffer < buffers; ++buffer) {
      for (uint64_t i = 0; i < 400; ++i) {
        pairs.push_back(
            {{i * 4000, 8, 8, 500}, {i * 8, 8, 2'000'000 + 8 * i, 500}, buffer, buffer});
      }
    }
    return GroupRanges(pairs, buffers, buffers).status();
  };
  REQUIRE_OK(made(1));
  const Status refused = made(100);
  CHECK(refused.code() == Code::kResourceExhausted);
  CHECK(refused.reason() == reasons::kQuota);
  CHECK(refused.remedy() == "split the request");
}

TEST_CASE("ranges that are not interleaved need none of that, in however many buffers") {
  std::vector<RangePair> pairs;
  for (uint32_t i = 0; i < 100'000; ++i) {
    const uint64_t at = uint64_t{i} / 1000 * 100;
    pairs.push_back({{at, 8, 10, 10}, {at, 8, 10, 10}, i % 1000, i % 1000});
  }
  CHECK(GroupRanges(pairs, 1000, 1000).ok());
}
