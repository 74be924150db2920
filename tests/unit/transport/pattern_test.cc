// The bytes by which other tests tell what has arrived: whatever else is there must be found.
#include "tests/support/pattern.h"

#include <vector>

#include "tests/support/catch.h"

using namespace onecopy::testing;

TEST_CASE("a byte that is not the pattern's is found, wherever it is") {
  constexpr uint64_t kBytes = 1000;
  std::vector<std::byte> data(kBytes);
  Fill(data.data(), kBytes, 3, 17);
  CHECK(FirstWrong(data.data(), kBytes, 3, 17) == kBytes);
  for (uint64_t at = 0; at < kBytes; ++at) {
    REQUIRE(data[at] == PatternAt(17 + at, 3));
    data[at] ^= std::byte{1};
    REQUIRE(FirstWrong(data.data(), kBytes, 3, 17) == at);
    data[at] ^= std::byte{1};
  }
  CHECK(FirstWrong(data.data(), kBytes, 4, 17) < kBytes);
  CHECK(FirstWrong(data.data(), kBytes, 3, 18) < kBytes);
  CHECK(FirstWrong(data.data(), 0, 4) == 0);
}
