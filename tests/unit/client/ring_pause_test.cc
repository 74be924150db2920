#include "client/lib/ring/ring_pause.h"

#include <cstdint>
#include <limits>
#include <optional>

#include "tests/support/catch.h"

namespace onecopy::client {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using Kind = RingPause::Kind;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr microseconds kSpin{100};
constexpr milliseconds kLongest{10};

TEST_CASE("a route's rate forecasts long copies from the last long one") {
  RouteRate rate;
  CHECK(rate.Expect(64 * kMiB) == std::nullopt);
  rate.Note(4096, microseconds(10));  // tells nothing of moving
  CHECK(rate.Expect(64 * kMiB) == std::nullopt);
  rate.Note(64 * kMiB, microseconds(180));
  const auto expected = rate.Expect(1024 * kMiB);
  REQUIRE(expected.has_value());
  CHECK(*expected >= microseconds(2870));
  CHECK(*expected <= microseconds(2890));
  CHECK(rate.Expect(4096) == std::nullopt);
  rate.Note(64 * kMiB, microseconds(360));
  CHECK(*rate.Expect(64 * kMiB) >= microseconds(359));
}

TEST_CASE("a rate of nonsense forecasts nothing, or something that is not negative") {
  RouteRate rate;
  rate.Note(64 * kMiB, nanoseconds(0));
  rate.Note(64 * kMiB, nanoseconds(-5));
  CHECK(rate.Expect(64 * kMiB) == std::nullopt);
  rate.Note(kMiB, nanoseconds(std::numeric_limits<int64_t>::max()));
  CHECK(rate.Expect(64 * kMiB) == std::nullopt);
  rate.Note(uint64_t{4} << 30, milliseconds(1000));
  CHECK(rate.Expect(uint64_t{4} << 30).value_or(nanoseconds(-1)) >= milliseconds(999));
}

TEST_CASE("without a forecast a thread spins as long as the daemon does, then sleeps") {
  CHECK(ChoosePause(nanoseconds(10), kSpin, std::nullopt, kLongest).kind == Kind::kPause);
  CHECK(ChoosePause(microseconds(99), kSpin, std::nullopt, kLongest).kind == Kind::kYield);
  const RingPause later = ChoosePause(kSpin, kSpin, std::nullopt, kLongest);
  CHECK(later.kind == Kind::kSleep);
  CHECK(later.longest == kLongest);
}

TEST_CASE("a thread that waits for a long copy wakes before its expected end, and spins over it") {
  const RingPause far = ChoosePause(kSpin, kSpin, microseconds(2600), kLongest);
  CHECK(far.kind == Kind::kSleep);
  CHECK(far.longest < microseconds(2600));
  CHECK(far.longest > microseconds(2000));
  CHECK(ChoosePause(kSpin, kSpin, milliseconds(100), kLongest).longest == kLongest);
  CHECK(ChoosePause(microseconds(2500), kSpin, microseconds(200), kLongest).kind == Kind::kYield);
  CHECK(ChoosePause(microseconds(2800), kSpin, microseconds(-100), kLongest).kind == Kind::kYield);
}

TEST_CASE("a copy that takes longer than expected keeps no processor busy") {
  CHECK(ChoosePause(milliseconds(5), kSpin, milliseconds(-2), kLongest).kind == Kind::kSleep);
}

TEST_CASE("clients of a daemon that does not spin do not spin either") {
  CHECK(ChoosePause(microseconds(50), nanoseconds(0), microseconds(10), kLongest).kind ==
        Kind::kSleep);
}

}  // namespace
}  // namespace onecopy::client
