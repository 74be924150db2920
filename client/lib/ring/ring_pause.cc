#include "client/lib/ring/ring_pause.h"

#include <algorithm>

namespace onecopy::client {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

// How long a processor is kept without work. Where both ends share one, the daemon needs it.
constexpr microseconds kPolite{3};
constexpr microseconds kBefore{300};  // the expected end
constexpr microseconds kAfter{200};
constexpr uint64_t kFemtoPerNano = 1'000'000;
// A rate below 1 byte per microsecond forecasts nothing, and products stay within 64 bits.
constexpr uint64_t kSlowest = kFemtoPerNano * 1000;

}  // namespace

void RouteRate::Note(uint64_t bytes, nanoseconds took) {
  if (bytes < kLeastBytes || took.count() <= 0) return;
  const double rate =
      static_cast<double>(took.count()) * kFemtoPerNano / static_cast<double>(bytes);
  femtoseconds_per_byte_.store(static_cast<uint64_t>(std::min<double>(rate, kSlowest)),
                               std::memory_order_relaxed);
}

std::optional<nanoseconds> RouteRate::Expect(uint64_t bytes) const {
  const uint64_t rate = femtoseconds_per_byte_.load(std::memory_order_relaxed);
  if (rate == 0 || rate >= kSlowest || bytes < kLeastBytes) return std::nullopt;
  const double expected = static_cast<double>(bytes) * static_cast<double>(rate) / kFemtoPerNano;
  return nanoseconds(static_cast<int64_t>(expected));
}

RingPause ChoosePause(nanoseconds waited, nanoseconds spin, std::optional<nanoseconds> left,
                      nanoseconds longest) {
  if (waited < kPolite) return {RingPause::Kind::kPause, {}};
  if (waited < spin) return {RingPause::Kind::kYield, {}};
  // A daemon that does not spin shall not have clients that do.
  if (!left || spin <= nanoseconds(0)) return {RingPause::Kind::kSleep, longest};
  if (*left > kBefore) return {RingPause::Kind::kSleep, std::min(longest, *left - kBefore)};
  if (*left > -nanoseconds(kAfter)) return {RingPause::Kind::kYield, {}};
  return {RingPause::Kind::kSleep, longest};
}

}  // namespace onecopy::client
