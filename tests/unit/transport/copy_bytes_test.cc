#include "transport/os/memory/copy_bytes.h"

#include <numeric>
#include <vector>

#include "tests/support/catch.h"

TEST_CASE("elements of any size go from one stride to another, and nothing beside them") {
  const size_t bytes = GENERATE(1, 2, 3, 4, 8, 16, 24);
  const size_t from_stride = bytes + GENERATE(0, 1, 29, 5000);
  const size_t to_stride = bytes + GENERATE(0, 7, 64);
  constexpr size_t kCount = 21;
  std::vector<unsigned char> from(from_stride * kCount);
  std::iota(from.begin(), from.end(), 1);
  constexpr unsigned char kBefore = 0xEE;
  std::vector<unsigned char> to(to_stride * kCount, kBefore);
  std::vector<unsigned char> expected = to;
  for (size_t i = 0; i < kCount; ++i) {
    for (size_t k = 0; k < bytes; ++k) expected[i * to_stride + k] = from[i * from_stride + k];
  }
  onecopy_copy_strided(to.data(), to_stride, from.data(), from_stride, bytes, kCount);
  CHECK(to == expected);
}
