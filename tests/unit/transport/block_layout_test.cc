// Blocks that are named by their numbers.
#include "onecopy/block_layout.h"

#include <functional>
#include <limits>
#include <string>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

namespace block_layout_test {
using namespace onecopy;

namespace {

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

using Blocks = std::vector<uint64_t>;

BlockLayout Made(const std::vector<Endpoint>& ends, const BlockShape& shape) {
  auto made = BlockLayout::Make(ends, shape);
  REQUIRE_OK(made);
  return *std::move(made);
}

}  // namespace

TEST_CASE("block numbers become ranges, in each layer of each buffer") {
  const BlockLayout ours =
      Made({{"", "keys", 100, 1000}, {"", "values", {}, 900}},
           {.block_bytes = 10, .count = 8, .offset = 4, .stride = 16, .layers = 2});
  CHECK(ours.layers() == 4);
  CHECK(ours.count() == 8);
  const BlockLayout theirs =
      Made({{"west", "all", 0, 400}}, {.block_bytes = 10, .count = 10, .layers = 4});
  const auto request = MoveBlocks(ours, Blocks{7, 2}, theirs, Blocks{0, 9});
  REQUIRE_OK(request);
  CHECK(request->source == Endpoint{"", "keys"});
  CHECK(request->more_sources == std::vector<Endpoint>{{"", "values"}});
  CHECK(request->destination == Endpoint{"west", "all"});
  CHECK(request->more_destinations.empty());
  CHECK(*request->equal_ranges == EqualRanges{10,
                                              {216, 136, 344, 264, 116, 36, 244, 164},
                                              {0, 90, 100, 190, 200, 290, 300, 390},
                                              {0, 0, 0, 0, 1, 1, 1, 1},
                                              {}});
}

TEST_CASE("ranges of one buffer are layers in it, and blocks may lie between blocks of others") {
  const BlockLayout halves =
      Made({{"", "cache", 0, 80}, {"", "cache", 80, 80}}, {.block_bytes = 8, .count = 10});
  CHECK(halves.buffers() == std::vector<Endpoint>{{"", "cache"}});
  const BlockLayout rows =
      Made({{"", "rows", 0, 160}},
           {.block_bytes = 8, .count = 10, .stride = 16, .layers = 2, .layer_stride = 8});
  const auto ranges = RangesOf(halves, Blocks{3}, rows, Blocks{9});
  REQUIRE_OK(ranges);
  CHECK(*ranges == EqualRanges{8, {24, 104}, {144, 152}, {}, {}});
}

TEST_CASE("a layout that cannot be is refused when it is made") {
  struct Case {
    std::vector<Endpoint> ends;
    BlockShape shape;
    std::string_view reason;
    std::string says;
  };
  const std::vector<Endpoint> cache = {{"", "cache", 0, 1000}};
  const Case cases[] = {
      {{}, {8, 10}, reasons::kBadEndpoint, "no buffer"},
      {cache, {0, 10}, reasons::kBadSize, "nothing in it"},
      {cache, {8, 0}, reasons::kBadSize, "nothing in it"},
      {cache, {8, 10, 0, 0, 0}, reasons::kBadSize, "nothing in it"},
      {cache, {8, 10, 0, 7}, reasons::kRangesOverlap, "overlap"},
      {cache, {8, 10, 0, 8, 2, 72}, reasons::kRangesOverlap, "overlap"},
      {cache, {8, 10, 0, 12, 2, 8}, reasons::kRangesOverlap, "overlap"},
      {cache, {8, 126}, reasons::kRangeOutOfBuffer, "do not lie inside"},
      {cache, {8, 125, 1}, reasons::kRangeOutOfBuffer, "do not lie inside"},
      {cache, {8, 63, 0, 0, 2}, reasons::kRangeOutOfBuffer, "do not lie inside"},
      {cache, {kMost, kMost}, reasons::kBadSize, "64 bits"},
      {cache, {1, kMost, 0, 2}, reasons::kBadSize, "64 bits"},
      {cache, {kMost, 1, kMost}, reasons::kRangeOutOfBuffer, "do not lie inside"},
      {cache, {1, 2, 0, 0, kMost}, reasons::kBadArgument, "131072 ranges"},
      {{{"", "cache", kMost, 1000}}, {8, 10}, reasons::kRangeOutOfBuffer, "do not lie inside"},
      {{{"", "cache"}}, {8, 10}, reasons::kBadSize, "not known"},
      {{{"", "", 0, 1000}}, {8, 10}, reasons::kBadEndpoint, "names no buffer"},
      {{{"west", "a", 0, 99}, {"east", "b", 0, 99}}, {8, 10}, reasons::kBadEndpoint, "of node"},
  };
  for (const Case& bad : cases) {
    const Status refused = BlockLayout::Make(bad.ends, bad.shape).status();
    INFO(refused.ToString());
    CHECK(refused.reason() == bad.reason);
    CHECK(refused.message().find(bad.says) != std::string::npos);
    CHECK_FALSE(refused.remedy().empty());
  }
}

TEST_CASE("blocks that are not there, and lists that do not fit together, are refused by number") {
  const BlockLayout ours = Made({{"", "a", 0, 1000}}, {.block_bytes = 8, .count = 100});
  const BlockLayout longer = Made({{"", "a", 0, 1000}}, {.block_bytes = 16, .count = 50});
  const BlockLayout layers =
      Made({{"", "b", 0, 1000}}, {.block_bytes = 8, .count = 50, .layers = 2});
  struct Case {
    const BlockLayout& source;
    Blocks from;
    const BlockLayout& destination;
    Blocks to;
    std::string_view reason;
    std::string says;
  };
  const Case cases[] = {
      {ours,
       {0, 100},
       ours,
       {0, 1},
       reasons::kRangeOutOfBuffer,
       "number 1 of the source's blocks is block 100, and its layout has blocks 0 to 99"},
      {ours, {0}, ours, {kMost}, reasons::kRangeOutOfBuffer, "number 0 of the destination's"},
      {ours, {0}, ours, {uint64_t{1} << 63}, reasons::kRangeOutOfBuffer, "9223372036854775808"},
      {ours, {0, 1}, ours, {0}, reasons::kSizeMismatch, "2 blocks of the source and 1"},
      {ours, {}, ours, {}, reasons::kBadSize, "no blocks"},
      {ours, {0}, longer, {0}, reasons::kSizeMismatch, "blocks of 8 bytes, the destination's"},
      {ours, {0}, layers, {0}, reasons::kSizeMismatch, "1 layers"},
      {layers, Blocks(kMaxRanges / 2 + 1), layers, Blocks(kMaxRanges / 2 + 1),
       reasons::kBadArgument, "65537 blocks of 2 layers"},
  };
  for (const Case& bad : cases) {
    const Status refused = MoveBlocks(bad.source, bad.from, bad.destination, bad.to).status();
    INFO(refused.ToString());
    CHECK(refused.reason() == bad.reason);
    CHECK(refused.message().find(bad.says) != std::string::npos);
    CHECK_FALSE(refused.remedy().empty());
  }
}

}  // namespace block_layout_test
