#include "daemon/pipeline/awaited_route.h"

namespace onecopy::pipeline {
namespace {

constexpr std::chrono::microseconds kBefore{150};
constexpr std::chrono::microseconds kAfter{250};

// A task that comes again and again keeps its thread looking at its sockets.
void StayAwakeUntil(const std::shared_ptr<Executor>& thread, const AwaitedRoute::Now& now,
                    AwaitedRoute::Clock::time_point until) {
  if (now() >= until) return;
  thread->Post([thread, now, until] { StayAwakeUntil(thread, now, until); });
}

}  // namespace

Status AwaitedRoute::Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) {
  Status begun = route_->Begin(from_offset, to_offset, bytes);
  if (!begun.ok()) return begun;
  if (copies_++ == 0) begun_ = now_();
  bytes_ += bytes;
  return begun;
}

uint64_t AwaitedRoute::Mark() { return last_mark_ = route_->Mark(); }

bool AwaitedRoute::Reached(uint64_t mark, Status* failure) {
  if (!route_->Reached(mark, failure)) {
    if (!kept_ && seconds_per_byte_ > 0) StayAwake();
    return false;
  }
  if (mark != last_mark_ || copies_ == 0) return true;
  if (copies_ == 1 && failure->ok()) {
    const std::chrono::duration<double> took = now_() - begun_;
    seconds_per_byte_ = took.count() / static_cast<double>(bytes_);
  }
  copies_ = bytes_ = 0;
  kept_ = false;
  return true;
}

void AwaitedRoute::StayAwake() {
  const auto takes = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(seconds_per_byte_ * static_cast<double>(bytes_)));
  if (now_() < begun_ + takes - kBefore) return;
  kept_ = true;
  StayAwakeUntil(thread_, now_, begun_ + takes + kAfter);
}

}  // namespace onecopy::pipeline
