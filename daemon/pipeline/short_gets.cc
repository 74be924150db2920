#include "daemon/pipeline/short_gets.h"

#include <cassert>
#include <utility>

namespace onecopy::pipeline {

ShortGets::ShortGets(Source source, RegionRef into, UniqueFunction<void(const Status&)> failed)
    : source_(std::move(source)), into_(std::move(into)), failed_(std::move(failed)) {}

Status ShortGets::Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) {
  assert(from_offset >= source_.begin);
  assert(to_offset <= into_->bytes() && bytes <= into_->bytes() - to_offset);
  batch_.push_back({.channel = source_.channel,
                    .key = &source_.key,
                    .key_offset = from_offset - source_.begin,
                    .into = {into_, to_offset, bytes}});
  ++begun_;
  return OkStatus();
}

uint64_t ShortGets::Mark() {
  if (batch_.empty()) return begun_;
  const uint64_t first = begun_ - batch_.size();
  // This route stays while something of it is under way.
  source_.connection->executor().Post([this, first, batch = std::exchange(batch_, {})] {
    for (uint64_t i = 0; i < batch.size(); ++i) {
      source_.connection->Get(
          batch[i], [this, number = first + i](const Status& status, const StepList& steps,
                                               unsigned) { Ended(number, status, steps); });
    }
  });
  return begun_;
}

// The last thing that is done with this route may be the last line.
void ShortGets::Ended(uint64_t number, const Status& status, const StepList& steps) {
  if (!status.ok()) {
    {
      const std::lock_guard lock(mutex_);
      if (failure_.ok()) failure_ = status;
    }
    if (number < first_failed_.load()) first_failed_.store(number);
    if (failed_) std::exchange(failed_, nullptr)(status);
  } else if (steps.get() != seen_) {
    seen_ = steps.get();
    steps_->Set(steps);
  }
  ended_[number % kMostUnderWay].store(number + 1, std::memory_order_release);
}

bool ShortGets::Reached(uint64_t mark, Status* failure) {
  while (reached_ < mark) {
    const auto& ended = ended_[reached_ % kMostUnderWay];
    if (ended.load(std::memory_order_acquire) != reached_ + 1) return false;
    ++reached_;
  }
  if (mark > first_failed_.load()) {
    const std::lock_guard lock(mutex_);
    *failure = failure_;
  }
  return true;
}

}  // namespace onecopy::pipeline
