// What lanes were asked for and have not brought yet, and which of them would bring more first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/os/threads/event_loop.h"

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

// Of all lanes of a connection; data lanes are counted from 1. One thread at a time.
class LaneLoads {
 public:
  // `unequal`: the lanes may be of networks that are not equal, so their rates count.
  LaneLoads(size_t data_lanes, bool unequal) : loads_(data_lanes + 1), unequal_(unequal) {}

  const LaneLoad& operator[](unsigned lane) const { return loads_[lane]; }
  void Asked(unsigned lane, uint64_t bytes) { loads_[lane].Asked(bytes, Now()); }
  void Brought(unsigned lane, uint64_t bytes) { loads_[lane].Brought(bytes, Now()); }
  // Another socket is that lane from now on.
  void Forget(unsigned lane) { loads_[lane] = {}; }

  // The lane that would bring so many bytes first, of those that have room; 0 if none has. Equal
  // lanes take turns. A lane whose rate is not known is taken for the fastest.
  template <typename HasRoom>
  unsigned Choose(uint64_t bytes, const HasRoom& has_room) {
    const os::Clock::time_point now = Now();
    double fastest = 0;
    for (const LaneLoad& load : loads_) fastest = std::max(fastest, load.RateAt(now));
    const auto lanes = static_cast<unsigned>(loads_.size() - 1);
    unsigned soonest = 0;
    double least = 0;
    for (unsigned i = 0; i < lanes; ++i) {
      const unsigned lane = (last_ + i) % lanes + 1;
      if (!has_room(lane)) continue;
      double wait = static_cast<double>(loads_[lane].bytes() + bytes);
      const double rate = loads_[lane].RateAt(now);
      if (rate > 0) wait *= fastest / rate;
      if (soonest != 0 && wait >= least) continue;
      soonest = lane;
      least = wait;
    }
    if (soonest != 0) last_ = soonest;
    return soonest;
  }

 private:
  // Where rates do not count, time stands still, and none is ever known.
  os::Clock::time_point Now() const {
    return unequal_ ? os::Clock::now() : os::Clock::time_point();
  }

  std::vector<LaneLoad> loads_;
  const bool unequal_;
  unsigned last_ = 0;  // that was chosen
};

}  // namespace onecopy::tcp
