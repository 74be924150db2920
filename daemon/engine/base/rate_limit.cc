#include "daemon/engine/base/rate_limit.h"

#include <algorithm>

namespace onecopy::engine {
namespace {

// Longer than any limit's owner wants to wait, and far from the clock's end.
constexpr std::chrono::hours kMostAhead{24};

}  // namespace

void RateLimit::SetRate(uint64_t bytes_per_second) {
  const MutexLock lock(mutex_);
  bytes_per_second_ = bytes_per_second;
}

uint64_t RateLimit::rate() const {
  const MutexLock lock(mutex_);
  return bytes_per_second_;
}

RateLimit::Clock::time_point RateLimit::Spend(uint64_t bytes, Clock::time_point now) {
  const MutexLock lock(mutex_);
  if (bytes_per_second_ == 0) return now;
  const Clock::time_point begins = std::max(next_, now - kSlack);
  const std::chrono::duration<double> takes(static_cast<double>(bytes) /
                                            static_cast<double>(bytes_per_second_));
  next_ = std::min(begins + std::chrono::duration_cast<Clock::duration>(
                                std::min<std::chrono::duration<double>>(takes, kMostAhead)),
                   now + kMostAhead);
  return begins;
}

}  // namespace onecopy::engine
