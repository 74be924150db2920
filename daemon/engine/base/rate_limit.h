// A limit of bytes per second that several transfers keep together.
#pragma once

#include <chrono>
#include <cstdint>

#include "transport/core/mutex.h"

namespace onecopy::engine {

// Any thread. Each piece gets a time at which it may begin, in the order in which pieces ask: the
// piece before it then has had as long as the rate gives it (GCRA, a leaky bucket as a meter). Who
// has asked for nothing lately has up to kSlack in advance, so that a timer that is late costs no
// bytes.
class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kSlack{50};

  // For what asks from now on; what was spent in advance takes as long as at the new rate. 0: no
  // limit.
  void SetRate(uint64_t bytes_per_second, Clock::time_point now = Clock::now());
  uint64_t rate() const;
  // How often another rate was set.
  uint64_t changes() const;

  Clock::time_point Spend(uint64_t bytes, Clock::time_point now = Clock::now());
  // Of what was spent, that these bytes do not move after all.
  void Refund(uint64_t bytes);
  // Whether a new limit would be no different.
  bool IsMadeUpFor(Clock::time_point now = Clock::now()) const;

 private:
  mutable Mutex mutex_;
  Clock::duration Takes(uint64_t bytes) const ONECOPY_REQUIRES(mutex_);

  uint64_t bytes_per_second_ ONECOPY_GUARDED_BY(mutex_) = 0;
  uint64_t changes_ ONECOPY_GUARDED_BY(mutex_) = 0;
  Clock::time_point next_ ONECOPY_GUARDED_BY(mutex_);  // its epoch: nothing was spent
};

}  // namespace onecopy::engine
