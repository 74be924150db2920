// A limit of bytes per second that several transfers keep together.
#pragma once

#include <chrono>
#include <cstdint>

#include "transport/core/base/mutex.h"

namespace onecopy::engine {

// Any thread. Each piece gets a time at which it may begin: the piece before it then has had as
// long as the rate gives it (GCRA, a leaky bucket as a meter). If nothing has asked lately, up to
// kSlack is free, so that a timer that is late costs no bytes. Times lie at most kAhead ahead: a
// transfer that ends before its time leaves a gap of at most kAhead. Only a piece that takes longer
// than that by itself makes the next ones wait longer.
class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kSlack{50};
  static constexpr std::chrono::milliseconds kAhead{1000};

  // For what asks from now on; of what was spent in advance, no more than kAhead stays. 0: no
  // limit.
  void SetRate(uint64_t bytes_per_second, Clock::time_point now = Clock::now());
  uint64_t rate() const;

  // Whether there are times to be given.
  bool MayAsk(Clock::time_point now = Clock::now()) const;
  // When the next `bytes` may begin; they are spent.
  Clock::time_point Spend(uint64_t bytes, Clock::time_point now = Clock::now());
  // Whether a new limit would be no different.
  bool IsMadeUpFor(Clock::time_point now = Clock::now()) const;

 private:
  mutable Mutex mutex_;
  uint64_t bytes_per_second_ ONECOPY_GUARDED_BY(mutex_) = 0;
  Clock::time_point next_ ONECOPY_GUARDED_BY(mutex_);  // its epoch: nothing was spent
};

}  // namespace onecopy::engine
