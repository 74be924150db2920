#include "daemon/engine/base/rate_limit.h"

#include <algorithm>

namespace onecopy::engine {
namespace {

// No piece takes longer, and this is far from the clock's end.
constexpr std::chrono::hours kLongestPiece{24};

}  // namespace

void RateLimit::SetRate(uint64_t bytes_per_second, Clock::time_point now) {
  const MutexLock lock(mutex_);
  if (bytes_per_second == bytes_per_second_) return;
  bytes_per_second_ = bytes_per_second;
  next_ = std::min(next_, now + kAhead);
}

uint64_t RateLimit::rate() const {
  const MutexLock lock(mutex_);
  return bytes_per_second_;
}

bool RateLimit::MayAsk(Clock::time_point now) const {
  const MutexLock lock(mutex_);
  return bytes_per_second_ == 0 || next_ <= now + kAhead;
}

RateLimit::Clock::time_point RateLimit::Spend(uint64_t bytes, Clock::time_point now) {
  const MutexLock lock(mutex_);
  if (bytes_per_second_ == 0) return now;
  const Clock::time_point begins = std::max(next_, now - kSlack);
  const std::chrono::duration<double> takes(static_cast<double>(bytes) /
                                            static_cast<double>(bytes_per_second_));
  next_ = begins + std::chrono::duration_cast<Clock::duration>(
                       std::min<std::chrono::duration<double>>(takes, kLongestPiece));
  return begins;
}

bool RateLimit::IsMadeUpFor(Clock::time_point now) const {
  const MutexLock lock(mutex_);
  return next_ <= now - kSlack;
}

}  // namespace onecopy::engine
