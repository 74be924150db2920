#include "onecopy/range.h"

#include <limits>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using onecopy::ByteRange;
using onecopy::CheckWithin;
using onecopy::Overlap;

constexpr uint64_t kLast = std::numeric_limits<uint64_t>::max();

TEST_CASE("a range lies inside its buffer or is refused, without overflow") {
  CHECK(CheckWithin({0, 0}, 0, "buffer").ok());
  CHECK(CheckWithin({10, 0}, 10, "buffer").ok());
  CHECK(CheckWithin({0, 10}, 10, "buffer").ok());
  CHECK(CheckWithin({kLast, 0}, kLast, "buffer").ok());
  for (const ByteRange range :
       {ByteRange{1, 10}, {11, 0}, {0, 11}, {kLast, 1}, {1, kLast}, {kLast, kLast}}) {
    const auto status = CheckWithin(range, 10, "buffer");
    CHECK(status.code() == onecopy::Code::kOutOfRange);
    CHECK(status.reason() == onecopy::reasons::kRangeOutOfBuffer);
  }
}

TEST_CASE("ranges overlap when they share a byte") {
  CHECK(Overlap(ByteRange{0, 10}, {9, 1}));
  CHECK(Overlap(ByteRange{9, 1}, {0, 10}));
  CHECK(Overlap(ByteRange{0, kLast}, {kLast - 1, 1}));
  CHECK_FALSE(Overlap(ByteRange{0, 10}, {10, 5}));
  CHECK_FALSE(Overlap(ByteRange{10, 5}, {0, 10}));
  CHECK_FALSE(Overlap(ByteRange{5, 0}, {0, 10}));
  CHECK_FALSE(Overlap(ByteRange{0, 10}, {5, 0}));
}
