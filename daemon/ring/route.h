// What a ring's submissions may do: a way between two buffers that the engine has checked.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/ring/counts.h"
#include "onecopy/range.h"
#include "onecopy/status.h"
#include "transport/core/base/mutex.h"
#include "transport/core/contracts/small_copy_route.h"
#include "transport/ring/layout.h"

namespace onecopy::ring {

// Made by the engine; then read by the ring's thread, which alone uses both ways.
struct Route {
  uint64_t serial = 0;  // which one it is, for the journal
  std::shared_ptr<SmallCopyRoute> way;
  std::shared_ptr<SmallCopyRoute> long_way;  // for more than kMaxBytes; may be null
  ByteRange from;  // what may be read of the source buffer, and written of the destination's
  ByteRange to;
  uint64_t from_base = 0;  // where these buffers begin in what the ways move: not 0 for a view
  uint64_t to_base = 0;
  bool one_memory = false;  // both ends are in the same: ranges must not overlap

  uint64_t max_bytes() const { return long_way == nullptr ? kMaxBytes : kMaxLongBytes; }
  SmallCopyRoute& WayFor(uint64_t bytes) const { return bytes > kMaxBytes ? *long_way : *way; }
  // That for lists of pieces; one of none carries 0 bytes.
  SmallCopyRoute& ListWay() const {
    return long_way != nullptr && long_way->most_list_bytes() > 0 ? *long_way : *way;
  }
  uint64_t max_list_bytes() const { return ListWay().most_list_bytes(); }
  // Whether short transfers may ask for a checksum.
  bool sums() const { return way->sums(); }

  // Engine: nothing more may begin. Once.
  void Revoke(Status why) {
    why_ = std::move(why);
    revoked_.store(true, std::memory_order_release);
  }
  bool revoked() const { return revoked_.load(std::memory_order_acquire); }
  // Once it is withdrawn.
  const Status& why() const { return why_; }

  // What went wrong with a copy that had begun, lately.
  void SetFailure(const Status& failure) {
    const MutexLock lock(mutex_);
    failure_ = failure;
  }
  Status failure() const {
    const MutexLock lock(mutex_);
    return failure_;
  }

  // Ring's thread: a copy has begun, or ended.
  void Begun() {
    if (under_way++ == 0) idle_since_.store(kBusy, std::memory_order_relaxed);
  }
  void Ended(Clock::time_point now) {
    if (--under_way == 0) idle_since_.store(TicksOf(now), std::memory_order_relaxed);
  }
  // Any thread. Nothing while a copy is under way; before the first one, since it was made.
  std::optional<Clock::time_point> idle_since() const {
    const Clock::rep since = idle_since_.load(std::memory_order_relaxed);
    if (since == kBusy) return std::nullopt;
    return Clock::time_point(Clock::duration(since));
  }

  uint64_t under_way = 0;  // ring's thread
  Counts counts;           // see there

 private:
  Status why_;
  std::atomic<bool> revoked_{false};
  static constexpr Clock::rep kBusy = Clock::duration::max().count();
  static Clock::rep TicksOf(Clock::time_point time) { return time.time_since_epoch().count(); }
  std::atomic<Clock::rep> idle_since_{TicksOf(Clock::now())};
  mutable Mutex mutex_;
  Status failure_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::ring
