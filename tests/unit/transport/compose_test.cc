#include "transport/core/ranges/compose.h"

#include <random>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using namespace onecopy;

namespace {

using Ranges = std::vector<StridedRange>;

// Where each byte of the payload lies.
std::vector<uint64_t> Addresses(const Layout& layout) {
  std::vector<uint64_t> addresses;
  for (const StridedRange& piece : layout.pieces()) {
    for (uint64_t i = 0; i < piece.count; ++i) {
      for (uint64_t k = 0; k < piece.bytes; ++k) {
        addresses.push_back(layout.extent().offset + piece.offset + i * piece.stride + k);
      }
    }
  }
  return addresses;
}

Layout Made(const Ranges& ranges) {
  auto layout = Layout::Make(ranges, "test");
  REQUIRE_OK(layout);
  return std::move(*layout);
}

}  // namespace

TEST_CASE("a part of ranges lies where its bytes do") {
  std::mt19937 random(7);
  const auto any = [&](uint64_t least, uint64_t most) {
    return std::uniform_int_distribution<uint64_t>(least, most)(random);
  };
  for (int round = 0; round < 400; ++round) {
    Ranges pieces;
    uint64_t at = any(0, 9);
    for (uint64_t i = any(1, 4); i > 0; --i) {
      const StridedRange piece{at, any(1, 6), any(6, 11), any(1, 5)};
      pieces.push_back(piece);
      at += piece.count * piece.stride + any(0, 5);
    }
    const Layout outer = Made(pieces);
    const std::vector<uint64_t> whole = Addresses(outer);
    const uint64_t first = any(0, whole.size() - 1);
    const ByteRange part{first, any(1, whole.size() - first)};
    const auto composed = Compose(outer, part, nullptr, "test");
    REQUIRE_OK(composed);
    // Offsets in what is composed count from the outer layout's first byte on.
    std::vector<uint64_t> expected;
    for (uint64_t i = 0; i < part.bytes; ++i) {
      expected.push_back(whole[part.offset + i] - outer.extent().offset);
    }
    CHECK(Addresses(*composed) == expected);

    const uint64_t bytes = any(1, std::max<uint64_t>(1, part.bytes / 3));
    const uint64_t count = std::max<uint64_t>(1, part.bytes / (bytes + 2));
    const Layout inner = Made({{0, bytes, bytes + 2, count}});
    if (inner.extent().bytes > part.bytes) continue;
    const auto scattered = Compose(outer, part, &inner, "test");
    REQUIRE_OK(scattered);
    expected.clear();
    for (const uint64_t offset : Addresses(inner)) {
      expected.push_back(whole[part.offset + offset] - outer.extent().offset);
    }
    CHECK(Addresses(*scattered) == expected);
  }
}

TEST_CASE("a column of an array with gaps is one strided range") {
  const Layout rows = Made({{0, 32, 100, 1000}});
  const Layout column = Made({{8, 4, 32, 1000}});
  const auto composed = Compose(rows, {0, 32'000 - 8}, &column, "test");
  REQUIRE_OK(composed);
  REQUIRE(composed->size() == 1);
  CHECK(composed->piece(0) == StridedRange{0, 4, 100, 1000});
  // The layout of the ranges has left out where its own first byte lies.
  CHECK(composed->extent().offset == 0);
}

TEST_CASE("more pieces than a transfer may have are refused") {
  const Layout rows = Made({{0, 3, 8, 2 * kMaxRanges}});
  const Layout halves = Made({{1, 4, 6, kMaxRanges}});  // each in two rows
  const auto composed = Compose(rows, {0, rows.bytes()}, &halves, "test");
  CHECK(composed.status().reason() == reasons::kBadSize);
}
