#include "transport/core/ranges/scatter.h"

#include <algorithm>
#include <random>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using namespace onecopy;

namespace {

using Ranges = std::vector<StridedRange>;

// Where each byte of the payload lies.
std::vector<uint64_t> Addresses(const Layout& layout, uint64_t at) {
  std::vector<uint64_t> addresses;
  for (const StridedRange& piece : layout.pieces()) {
    for (uint64_t i = 0; i < piece.count; ++i) {
      for (uint64_t k = 0; k < piece.bytes; ++k)
        addresses.push_back(at + piece.offset + i * piece.stride + k);
    }
  }
  return addresses;
}

// What the copies say of each byte of the payload: from, to.
std::vector<std::pair<uint64_t, uint64_t>> Played(const std::vector<StridedCopy>& copies) {
  std::vector<std::pair<uint64_t, uint64_t>> bytes;
  for (const StridedCopy& copy : copies) {
    for (uint64_t i = 0; i < copy.count; ++i) {
      for (uint64_t k = 0; k < copy.bytes; ++k)
        bytes.emplace_back(copy.from + i * copy.from_stride + k, copy.to + i * copy.to_stride + k);
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("ranges are counted as asked for and as joined on both sides") {
  const Ranges source = {{0, 10, 0, 1}, {10, 10, 0, 1}, {20, 10, 0, 1}, {50, 4, 8, 3}};
  const Ranges destination = {{100, 10, 0, 1}, {110, 10, 0, 1}, {200, 10, 0, 1}, {0, 12, 0, 1}};
  const auto scatter = Scatter::Make(source, destination);
  REQUIRE_OK(scatter);
  CHECK((*scatter)->ranges == 4);
  CHECK((*scatter)->merged_ranges == 3);
  CHECK((*scatter)->source.bytes() == 42);
  CHECK((*scatter)->destination.bytes() == 42);
}

TEST_CASE("pairs of unlike sizes and overlapping destinations are refused, repeated sources not") {
  const auto reason = [](const Ranges& source, const Ranges& destination) {
    return Scatter::Make(source, destination).status().reason();
  };
  CHECK(reason({{0, 10, 0, 1}}, {{0, 11, 0, 1}}) == reasons::kSizeMismatch);
  CHECK(reason({{0, 4, 8, 2}}, {{0, 4, 8, 3}}) == reasons::kSizeMismatch);
  CHECK(reason({{0, 10, 0, 1}}, {{0, 5, 0, 1}, {5, 5, 0, 1}}) == reasons::kSizeMismatch);
  CHECK(reason({{0, 5, 0, 1}, {5, 5, 0, 1}}, {{0, 5, 0, 1}, {4, 5, 0, 1}}) ==
        reasons::kRangesOverlap);
  CHECK(Scatter::Make(Ranges{{0, 5, 0, 1}, {0, 5, 0, 1}}, Ranges{{0, 5, 0, 1}, {5, 5, 0, 1}}).ok());
}

TEST_CASE("a column is one copy, and so is one from column to column") {
  const auto scatter = Scatter::Make(Ranges{{8, 4, 32, 1000}}, Ranges{{100, 4000, 0, 1}});
  REQUIRE_OK(scatter);
  const ScatterEnd from{&(*scatter)->source, 5000};
  CHECK(CopiesOf(from, {&(*scatter)->destination, 0}, 0, 4000) ==
        std::vector<StridedCopy>{{5000, 0, 4, 32, 4, 1000}});
  CHECK(CopiesOf(from, {nullptr, 70}, 0, 4000) ==
        std::vector<StridedCopy>{{5000, 70, 4, 32, 4, 1000}});
  CHECK(CopiesOf(from, {&(*scatter)->source, 4}, 400, 400) ==
        std::vector<StridedCopy>{{5000 + 3200, 4 + 3200, 4, 32, 32, 100}});
  // A piece that begins and ends inside elements.
  CHECK(CopiesOf(from, {nullptr, 0}, 3, 10) == std::vector<StridedCopy>{{5003, 0, 1, 0, 0, 1},
                                                                        {5032, 1, 4, 32, 4, 2},
                                                                        {5096, 9, 1, 0, 0, 1}});
}

TEST_CASE("any piece of any payload is copied byte by byte to where it belongs") {
  std::mt19937 random(11);
  const auto some = [&](uint64_t most) { return random() % (most + 1); };
  for (int round = 0; round < 3000; ++round) {
    Ranges source;
    Ranges destination;
    uint64_t to = 0;
    for (uint64_t i = 0, ranges = 1 + some(5); i < ranges; ++i) {
      // The same bytes in elements of two sizes.
      const uint64_t element = 1 + some(6);
      const uint64_t groups = 1 + some(4);
      const uint64_t group = 1 + some(3);
      const StridedRange fine{some(500), element, element + some(5), groups * group};
      StridedRange coarse{0, element * group, element * group + some(7), groups};
      const bool turned = some(1) == 1;
      StridedRange a = turned ? coarse : fine;
      StridedRange b = turned ? fine : coarse;
      a.offset = some(500);
      to += some(3);
      b.offset = to;
      to += (b.count - 1) * b.stride + b.bytes;
      source.push_back(a);
      destination.push_back(b);
    }
    const auto scatter = Scatter::Make(source, destination);
    REQUIRE_OK(scatter);
    const std::vector<uint64_t> from_all = Addresses((*scatter)->source, 1000);
    const std::vector<uint64_t> to_all = Addresses((*scatter)->destination, 2000);
    REQUIRE(from_all.size() == to_all.size());
    const uint64_t offset = some(from_all.size() - 1);
    const uint64_t bytes = some(from_all.size() - offset);
    const auto played = Played(
        CopiesOf({&(*scatter)->source, 1000}, {&(*scatter)->destination, 2000}, offset, bytes));
    REQUIRE(played.size() == bytes);
    bool right = true;
    for (uint64_t i = 0; i < bytes; ++i) {
      right &= played[i] == std::pair(from_all[offset + i], to_all[offset + i]);
    }
    REQUIRE(right);
  }
}

TEST_CASE("blocks of one length are copied as ranges are, byte by byte") {
  std::mt19937 random(29);
  const auto some = [&](uint64_t most) { return random() % (most + 1); };
  int as_offsets = 0;
  for (int round = 0; round < 3000; ++round) {
    const uint64_t bytes = 1 + some(6);
    const size_t count = 1 + some(9);
    std::vector<uint64_t> sources(count);
    std::vector<uint64_t> destinations(count);
    for (uint64_t& source : sources) source = some(30) * (some(1) == 0 ? 1 : bytes);
    for (size_t i = 0; i < count; ++i) destinations[i] = i * bytes;
    std::shuffle(destinations.begin(), destinations.end(), random);
    Ranges from;
    Ranges to;
    for (size_t i = 0; i < count; ++i) {
      from.push_back({sources[i], bytes, 0, 1});
      to.push_back({destinations[i], bytes, 0, 1});
    }
    const auto equal = Scatter::MakeEqual(sources, destinations, bytes);
    const auto plain = Scatter::Make(from, to);
    REQUIRE_OK(equal);
    REQUIRE_OK(plain);
    CHECK((*equal)->ranges == count);
    CHECK((*equal)->merged_ranges == (*plain)->merged_ranges);
    as_offsets += (*equal)->source.equal_bytes() == 0 ? 0 : 1;
    const uint64_t offset = some(count * bytes - 1);
    const uint64_t some_bytes = some(count * bytes - offset);
    const auto played = [&](const Layout* source, const Layout* destination) {
      return Played(CopiesOf({source, 1000}, {destination, 2000}, offset, some_bytes));
    };
    CHECK(played(&(*equal)->source, &(*equal)->destination) ==
          played(&(*plain)->source, &(*plain)->destination));
    CHECK(played(&(*equal)->source, nullptr) == played(&(*plain)->source, nullptr));
    CHECK(played(nullptr, &(*equal)->destination) == played(nullptr, &(*plain)->destination));
  }
  CHECK(as_offsets > 1000);
  CHECK(Scatter::MakeEqual({0, 8}, {0, 4}, 8).status().reason() == reasons::kRangesOverlap);
  CHECK(Scatter::MakeEqual({0, 8}, {0}, 8).status().reason() == reasons::kSizeMismatch);
}

TEST_CASE("of blocks of one length a chunk has so many that the list of them stays small") {
  std::vector<uint64_t> offsets(100'000);
  for (uint64_t i = 0; i < offsets.size(); ++i) offsets[i] = i * 617 % offsets.size() * 64;
  const auto blocks = Layout::MakeEqual(offsets, 64, "source");
  REQUIRE_OK(blocks);
  const uint64_t chunk = ChunkFor(&*blocks, nullptr, 64 << 20, 65536);
  CHECK(CopiesOf({&*blocks, 0}, {nullptr, 0}, chunk, chunk).size() <= 4097);
  CHECK(chunk == 4096 * 64);
  CHECK(ChunkFor(&*blocks, nullptr, 1 << 10, 65536) == 1 << 10);
}

TEST_CASE("chunks are cut where unlike elements would become too many copies") {
  const auto scatter = Scatter::Make(Ranges{{0, 4, 32, 1 << 20}}, Ranges{{0, 16, 64, 1 << 18}});
  REQUIRE_OK(scatter);
  const Layout* from = &(*scatter)->source;
  const Layout* to = &(*scatter)->destination;
  CHECK(ChunkFor(from, to, 1 << 30, 1000) == 4000);
  CHECK(ChunkFor(from, to, 2000, 1000) == 2000);
  CHECK(ChunkFor(from, nullptr, 1 << 30, 1000) == 1 << 30);
  CHECK(ChunkFor(nullptr, nullptr, 77, 1000) == 77);
}
