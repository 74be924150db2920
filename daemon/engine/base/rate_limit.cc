#include "daemon/engine/base/rate_limit.h"

#include <algorithm>

namespace onecopy::engine {
namespace {

// Longer than any limit's owner wants to wait, and far from the clock's end.
constexpr std::chrono::minutes kMostAhead{60};

}  // namespace

void RateLimit::SetRate(uint64_t bytes_per_second, Clock::time_point now) {
  const MutexLock lock(mutex_);
  if (bytes_per_second == bytes_per_second_) return;
  if (next_ > now) {
    const double factor = bytes_per_second == 0 ? 0
                                                : static_cast<double>(bytes_per_second_) /
                                                      static_cast<double>(bytes_per_second);
    const std::chrono::duration<double> ahead = std::chrono::duration<double>(next_ - now) * factor;
    next_ = now + std::chrono::duration_cast<Clock::duration>(
                      std::min<std::chrono::duration<double>>(ahead, kMostAhead));
  }
  bytes_per_second_ = bytes_per_second;
  ++changes_;
}

uint64_t RateLimit::rate() const {
  const MutexLock lock(mutex_);
  return bytes_per_second_;
}

uint64_t RateLimit::changes() const {
  const MutexLock lock(mutex_);
  return changes_;
}

RateLimit::Clock::duration RateLimit::Takes(uint64_t bytes) const {
  const std::chrono::duration<double> takes(static_cast<double>(bytes) /
                                            static_cast<double>(bytes_per_second_));
  return std::chrono::duration_cast<Clock::duration>(
      std::min<std::chrono::duration<double>>(takes, kMostAhead));
}

RateLimit::Clock::time_point RateLimit::Spend(uint64_t bytes, Clock::time_point now) {
  const MutexLock lock(mutex_);
  if (bytes_per_second_ == 0) return now;
  const Clock::time_point begins = std::max(next_, now - kSlack);
  next_ = std::min(begins + Takes(bytes), now + kMostAhead);
  return begins;
}

void RateLimit::Refund(uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (bytes_per_second_ != 0) next_ -= Takes(bytes);
}

bool RateLimit::IsMadeUpFor(Clock::time_point now) const {
  const MutexLock lock(mutex_);
  return next_ <= now - kSlack;
}

}  // namespace onecopy::engine
