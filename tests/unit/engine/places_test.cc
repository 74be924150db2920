// Where a payload is cut into chunks.
#include <utility>
#include <vector>

#include "daemon/pipeline/places.h"
#include "tests/support/catch.h"

using onecopy::pipeline::DestinationRange;
using onecopy::pipeline::SourceRange;

namespace {

using Pieces = std::vector<std::pair<uint64_t, uint64_t>>;  // where each lies, and how long it is

Pieces PiecesOf(SourceRange source) {
  Pieces pieces;
  while (const auto chunk = source.Peek()) {
    pieces.emplace_back(chunk->at, chunk->bytes);
    source.Take(chunk->bytes);
  }
  return pieces;
}

}  // namespace

TEST_CASE("a payload is cut into chunks, and by no grain unless it is asked for") {
  CHECK(PiecesOf({7, 25, 10}) == Pieces{{7, 10}, {17, 10}, {27, 5}});
  CHECK(PiecesOf({7, 0, 10}).empty());
}

TEST_CASE("whole grains go together, and what is left over at either end by itself") {
  CHECK(PiecesOf({100, 30, 8, nullptr, {4, 0}}) ==
        Pieces{{100, 8}, {108, 8}, {116, 8}, {124, 4}, {128, 2}});
  // The payload begins three bytes behind a multiple.
  CHECK(PiecesOf({100, 12, 8, nullptr, {4, 3}}) == Pieces{{100, 1}, {101, 8}, {109, 3}});
  CHECK(PiecesOf({100, 1, 8, nullptr, {4, 2}}) == Pieces{{100, 1}});
  CHECK(PiecesOf({100, 3, 8, nullptr, {4, 0}}) == Pieces{{100, 3}});
  // Chunks that are no whole number of grains carry as many as fit.
  CHECK(PiecesOf({0, 20, 10, nullptr, {4, 0}}) == Pieces{{0, 8}, {8, 8}, {16, 4}});
}

TEST_CASE("what has arrived before is not handed out again") {
  CHECK(PiecesOf({7, 25, 10, nullptr, {}, 15}) == Pieces{{22, 10}});
  CHECK(PiecesOf({7, 25, 10, nullptr, {}, 25}).empty());
}

TEST_CASE("what has arrived is what came without a gap, in whatever order it came") {
  DestinationRange range(100, 50, nullptr, 10);
  CHECK(range.arrived() == 10);
  const auto fill = [&](uint64_t offset, uint64_t bytes) {
    const auto chunk = range.Reserve(offset, bytes);
    REQUIRE(chunk);
    CHECK(chunk->at == 100 + offset);
    range.Fill(*chunk);
  };
  fill(30, 10);
  fill(20, 10);
  CHECK(range.arrived() == 10);
  fill(10, 10);
  CHECK(range.arrived() == 40);
  CHECK_FALSE(range.Complete());
  fill(40, 10);
  CHECK(range.arrived() == 50);
  CHECK(range.Complete());
}

TEST_CASE("of a payload that comes in no order a bounded number of chunks is kept in mind") {
  constexpr uint64_t kChunks = 20'000;
  DestinationRange range(0, kChunks);
  for (uint64_t at = kChunks; at-- > 0;) range.Fill(*range.Reserve(at, 1));
  CHECK(range.Complete());
  // What was left out is not believed to have arrived.
  CHECK(range.arrived() == 1);
}
