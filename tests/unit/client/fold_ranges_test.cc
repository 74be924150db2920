// Ranges at regular distances become strided ones, and nothing else does.
#include "client/lib/transfers/fold_ranges.h"

#include <algorithm>
#include <random>

#include "tests/support/catch.h"

namespace fold_ranges_test {
using onecopy::EqualRanges;
using onecopy::RangePair;
using onecopy::StridedRange;
using onecopy::client::FoldRanges;

namespace {

using Folds = std::vector<RangePair>;

Folds Regular(uint32_t count, uint64_t from, uint64_t to, uint64_t bytes = 16) {
  Folds pairs;
  for (uint64_t i = 0; i < count; ++i) pairs.push_back({{i * from, bytes}, {i * to, bytes}});
  return pairs;
}

// Where each byte of the payload comes from, and where it goes.
std::vector<std::array<uint64_t, 4>> Moves(const Folds& pairs) {
  std::vector<std::array<uint64_t, 4>> moves;
  for (const RangePair& pair : pairs) {
    const auto at = [](const StridedRange& range, uint64_t k) {
      return range.offset + k / range.bytes * range.stride + k % range.bytes;
    };
    for (uint64_t k = 0; k < pair.source.bytes * pair.source.count; ++k) {
      moves.push_back({pair.source_buffer, at(pair.source, k), pair.destination_buffer,
                       at(pair.destination, k)});
    }
  }
  return moves;
}

}  // namespace

TEST_CASE("regular ranges are folded into one strided pair") {
  CHECK(FoldRanges(Regular(1000, 64, 32)) == Folds{{{0, 16, 64, 1000}, {0, 16, 32, 1000}}});
  // Neighbours, too: these are joined by whoever reads them.
  CHECK(FoldRanges(Regular(1000, 16, 32)) == Folds{{{0, 16, 16, 1000}, {0, 16, 32, 1000}}});
}

TEST_CASE("ranges of one length are folded likewise, and only where that is worth it") {
  EqualRanges ranges{.bytes = 16};
  for (uint64_t i = 0; i < 1000; ++i) {
    ranges.sources.push_back(i * 64);
    ranges.destinations.push_back(i * 32);
  }
  CHECK(FoldRanges(ranges) == FoldRanges(Regular(1000, 64, 32)));
  ranges.source_buffers.assign(1000, 3);
  REQUIRE(FoldRanges(ranges).size() == 1);
  CHECK(FoldRanges(ranges)[0].source_buffer == 3);
  std::shuffle(ranges.sources.begin(), ranges.sources.end(), std::minstd_rand(3));
  CHECK(FoldRanges(ranges).empty());
  CHECK(FoldRanges(EqualRanges()).empty());
}

TEST_CASE("what is not regular stays as it is") {
  CHECK(FoldRanges(Folds()).empty());
  CHECK(FoldRanges(Regular(3, 64, 32)).empty());
  Folds falling = Regular(100, 64, 32);
  std::reverse(falling.begin(), falling.end());
  CHECK(FoldRanges(falling).empty());
  Folds overlapping = Regular(100, 15, 32);
  CHECK(FoldRanges(overlapping).empty());
  Folds empty = Regular(100, 64, 32, 0);
  CHECK(FoldRanges(empty).empty());
  Folds unlike = Regular(100, 64, 32);
  for (RangePair& pair : unlike) pair.destination.bytes = 8;
  CHECK(FoldRanges(unlike).empty());
  Folds alternating = Regular(100, 64, 32);
  for (size_t i = 0; i < alternating.size(); ++i) alternating[i].source_buffer = i % 2;
  CHECK(FoldRanges(alternating).empty());
}

TEST_CASE("folded ranges move the same bytes") {
  std::minstd_rand random(7);
  for (int round = 0; round < 200; ++round) {
    Folds pairs;
    uint64_t from = 0;
    uint64_t to = 0;
    while (pairs.size() < 60) {
      const uint64_t bytes = 1 + random() % 3;
      const uint64_t step = bytes + random() % 4;
      const uint32_t buffer = random() % 2;
      for (uint64_t run = 1 + random() % 9; run > 0; --run) {
        pairs.push_back({{from, bytes}, {to, bytes}, buffer, 0});
        from += step;
        to += 2 * step;
      }
    }
    const Folds folded = FoldRanges(pairs);
    if (folded.empty()) continue;
    CHECK(folded.size() <= pairs.size() / 2);
    CHECK(Moves(folded) == Moves(pairs));
  }
}
}  // namespace fold_ranges_test
