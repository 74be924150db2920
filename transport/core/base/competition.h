// Whether those of several owners ask for the same thing.
#pragma once

#include <chrono>

#include "transport/core/base/flow.h"

namespace onecopy {

// While they do, less is handed on ahead of time: what comes next waits for all that was. One
// thread.
class Competition {
 public:
  using Clock = std::chrono::steady_clock;

  // Something of that flow comes. Those of two owners, or of two priorities, within a second
  // compete, for a second more.
  void Note(const Flow& flow, Clock::time_point now = Clock::now()) {
    const bool other = any_ && !IsAlike(flow) && now - last_at_ < kLately;
    if (other) until_ = now + kLately;
    on_ = now < until_;
    any_ = true;
    last_ = flow;
    last_at_ = now;
  }
  // As of the last Note.
  bool on() const { return on_; }

 private:
  static constexpr std::chrono::seconds kLately{1};

  bool IsAlike(const Flow& flow) const {
    return flow.SameOwner(last_) && flow.priority == last_.priority &&
           flow.own_priority == last_.own_priority;
  }

  Flow last_;
  bool any_ = false;             // something has come,
  Clock::time_point last_at_{};  // and then
  Clock::time_point until_ = Clock::time_point::min();
  bool on_ = false;
};

}  // namespace onecopy
