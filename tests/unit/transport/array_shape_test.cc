#include "onecopy/array_shape.h"

#include <limits>
#include <random>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using namespace onecopy;

namespace {

// Where each byte lies, in the order of the elements: by counting through the indices.
std::vector<uint64_t> Addresses(const ArrayShape& array) {
  std::vector<uint64_t> addresses;
  std::vector<uint64_t> index(array.shape.size());
  while (true) {
    uint64_t at = 0;
    for (size_t i = 0; i < index.size(); ++i) at += index[i] * array.strides[i];
    for (uint64_t k = 0; k < array.item_bytes; ++k) addresses.push_back(at + k);
    size_t i = index.size();
    while (i > 0 && ++index[i - 1] == array.shape[i - 1]) index[--i] = 0;
    if (i == 0) return addresses;
  }
}

std::vector<uint64_t> Addresses(const std::vector<StridedRange>& ranges) {
  std::vector<uint64_t> addresses;
  for (const StridedRange& range : ranges) {
    for (uint64_t i = 0; i < range.count; ++i) {
      for (uint64_t k = 0; k < range.bytes; ++k) {
        addresses.push_back(range.offset + i * range.stride + k);
      }
    }
  }
  return addresses;
}

}  // namespace

TEST_CASE("an array's ranges are its bytes in the order of its elements") {
  std::mt19937 random(5);
  const auto any = [&](uint64_t least, uint64_t most) {
    return std::uniform_int_distribution<uint64_t>(least, most)(random);
  };
  for (int round = 0; round < 300; ++round) {
    ArrayShape array{"x", any(1, 5), {}, {}};
    for (uint64_t i = any(0, 4); i > 0; --i) array.shape.push_back(any(1, 4));
    array.strides = CompactStrides(array);
    // Room behind some dimensions, and dimensions in another order.
    uint64_t step = array.item_bytes;
    std::vector<size_t> order(array.shape.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) {
      array.strides[i] = step;
      step = step * array.shape[i] + any(0, 1) * any(0, 7);
    }
    CAPTURE(ToString(array));
    const auto bytes = BytesOf(array);
    REQUIRE_OK(bytes);
    const auto ranges = RangesOf(array);
    REQUIRE_OK(ranges);
    const std::vector<uint64_t> expected = Addresses(array);
    CHECK(*bytes == expected.size());
    CHECK(Addresses(*ranges) == expected);
    CHECK(ExtentOf(array) == *std::max_element(expected.begin(), expected.end()) + 1);
    if (IsContiguous(array)) CHECK(*ranges == std::vector<StridedRange>{{0, *bytes, 0, 1}});
  }
}

TEST_CASE("an array that cannot be is refused, each for its reason") {
  const auto refused = [](uint64_t item, std::vector<uint64_t> shape,
                          std::vector<uint64_t> strides) {
    return BytesOf({"float32", item, std::move(shape), std::move(strides)}).status().reason();
  };
  CHECK(refused(4, {3}, {4}).empty());
  CHECK(refused(0, {3}, {4}) == reasons::kBadSize);
  CHECK(refused(4, {3, 0}, {4, 4}) == reasons::kBadSize);
  CHECK(refused(4, {3}, {}) == reasons::kBadSize);
  CHECK(refused(4, {3}, {0}) == reasons::kRangesOverlap);
  CHECK(refused(4, {3}, {3}) == reasons::kRangesOverlap);
  CHECK(refused(4, {1}, {0}).empty());  // of one element no stride counts
  CHECK(refused(1, std::vector<uint64_t>(65, 1), std::vector<uint64_t>(65, 1)) ==
        reasons::kBadArgument);
  constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
  CHECK(refused(4, {kHuge}, {4}) == reasons::kBadSize);
  CHECK(refused(4, {kHuge / 8, 8}, {32, 4}) == reasons::kBadSize);
  CHECK(refused(4, {3}, {kHuge / 2}) == reasons::kBadSize);
  CHECK(refused(kHuge, {}, {}) == reasons::kBadSize);
  CHECK(BytesOf({std::string(65, 'x'), 4, {1}, {4}}).status().reason() == reasons::kBadArgument);
}

TEST_CASE("an array of too many pieces is refused before they are counted out") {
  const ArrayShape array{"uint8", 1, {kMaxRanges + 1, 2, 2}, {1'000'000, 1'000, 4}};
  REQUIRE_OK(BytesOf(array));
  CHECK(RangesOf(array).status().reason() == reasons::kBadSize);
  const ArrayShape most{"uint8", 1, {kMaxRanges, 2}, {1'000'000, 4}};
  const auto ranges = RangesOf(most);
  REQUIRE_OK(ranges);
  CHECK(ranges->size() == kMaxRanges);
}

TEST_CASE("an array is written as people read it") {
  CHECK(ToString(ArrayShape{"float32", 4, {2, 3}, {12, 4}}) == "float32[2, 3]");
  CHECK(ToString(ArrayShape{"float32", 4, {2, 3}, {24, 8}}) == "float32[2, 3] strides [24, 8]");
  CHECK(ToString(ArrayShape{"int8", 1, {}, {}}) == "int8[]");
}
