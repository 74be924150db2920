#include "daemon/pipeline/small_outcomes.h"

#include <utility>

namespace onecopy::pipeline {

void SmallOutcomes::Ended(uint64_t number, const Status& status) {
  std::atomic<uint64_t>& ended = ended_[number % kPlaces];
  if (ended.load(std::memory_order_relaxed) > number) return;
  if (!status.ok()) {
    Tell(status);
    if (number < first_failed_.load()) first_failed_.store(number);
  }
  ended.store(number + 1, std::memory_order_release);
}

void SmallOutcomes::Tell(const Status& why) {
  {
    const MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = why;
  }
  if (failed_) std::exchange(failed_, nullptr)(why);
}

void SmallOutcomes::FailAll(uint64_t begun, const Status& why) {
  Tell(why);
  for (uint64_t number = begun > kPlaces ? begun - kPlaces : 0; number < begun; ++number) {
    Ended(number, why);
  }
}

bool SmallOutcomes::Reached(uint64_t mark, Status* failure) {
  for (; reached_ < mark; ++reached_) {
    const std::atomic<uint64_t>& ended = ended_[reached_ % kPlaces];
    if (ended.load(std::memory_order_acquire) != reached_ + 1) return false;
  }
  if (mark > first_failed_.load()) {
    const MutexLock lock(mutex_);
    *failure = failure_;
  }
  return true;
}

}  // namespace onecopy::pipeline
