// What a lane was asked for and has not brought yet, and how soon it would bring more.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "transport/os/event_loop.h"

namespace onecopy::tcp {

// One thread at a time.
class LaneLoad {
 public:
  uint64_t bytes() const { return bytes_; }
  size_t gets() const { return gets_; }

  // `now`: where rates count, else anything.
  void Asked(uint64_t bytes, os::Clock::time_point now) {
    if (gets_ == 0) {
      rate_ = RateAt(now);
      Begin(now);
    }
    bytes_ += bytes;
    ++gets_;
  }
  void Brought(uint64_t bytes, os::Clock::time_point now) {
    bytes_ -= bytes;
    --gets_;
    brought_ += bytes;
    if (brought_ < kMeasuredBytes || now <= began_) return;
    const double rate =
        static_cast<double>(brought_) / std::chrono::duration<double>(now - began_).count();
    rate_ = rate_ > 0 ? (rate_ + rate) / 2 : rate;
    Begin(now);
  }
  // In bytes per second, while it was busy; 0: not known, or too long ago. While it has something
  // to bring a rate stays: the next one takes as long as the lane is slow.
  double RateAt(os::Clock::time_point now) const {
    return gets_ > 0 || now - began_ < kKept ? rate_ : 0;
  }

 private:
  // Less says more of latency than of rate.
  static constexpr uint64_t kMeasuredBytes = uint64_t{2} << 20;
  static constexpr std::chrono::seconds kKept{10};

  void Begin(os::Clock::time_point now) {
    began_ = now;
    brought_ = 0;
  }

  uint64_t bytes_ = 0;
  size_t gets_ = 0;
  double rate_ = 0;
  os::Clock::time_point began_{};  // of what is measured
  uint64_t brought_ = 0;           // since
};

}  // namespace onecopy::tcp
