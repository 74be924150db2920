// Copies that the requesting thread starts and follows by itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "onecopy/result.h"
#include "onecopy/status.h"
#include "transport/core/base/mutex.h"
#include "transport/core/contracts/step.h"

namespace onecopy {

// The steps that each copy of a route takes. Any thread.
class SmallSteps {
 public:
  explicit SmallSteps(StepList steps = nullptr) : steps_(std::move(steps)) {}

  // Null where only a copy can tell, and none has ended yet.
  StepList Get() const {
    const MutexLock lock(mutex_);
    return steps_;
  }
  void Set(StepList steps) {
    const MutexLock lock(mutex_);
    steps_ = std::move(steps);
  }

 private:
  mutable Mutex mutex_;
  StepList steps_ ONECOPY_GUARDED_BY(mutex_);
};

// One of many pieces of equal length: where it begins in each region.
struct CopyPiece {
  uint64_t from = 0;
  uint64_t to = 0;
};

// The checksum (xxh3-128-tree) of what a small copy moved, as bytes.
using SmallSum = std::array<std::byte, 16>;

// A prepared way from one region to another, for copies so small that handing them to another
// thread would take longer than they do, or that hardware makes while the thread goes on. Holds
// both regions and whatever the copies need.
//
// All small copy routes of a process are used by one thread, which they never make wait, allocate
// or lock, with one exception: sums between nodes take a lock that is held for moments. A route is
// released on a thread that may block, with nothing of it under way. No more than kMaxUnderWay
// copies of a route have been begun and not been seen to have ended.
class SmallCopyRoute {
 public:
  static constexpr uint32_t kMaxUnderWay = 256;

  virtual ~SmallCopyRoute() = default;

  // The number of the transfer that the next copy is for. Only routes to another node tell it.
  virtual void SetTransfer(uint64_t) {}

  // Begins a copy. The pieces lie inside the regions; one that does not fails with INTERNAL
  // (RANGE_OUT_OF_BUFFER). After a failure nothing of this copy is under way.
  virtual Status Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) = 0;

  // How many bytes BeginMany takes at most; 0: it does not work here.
  virtual uint64_t most_list_bytes() const { return 0; }
  // As Begin, of many pieces of `bytes` bytes each, as one copy. RESOURCE_EXHAUSTED (QUOTA) where
  // as many as this route has room for are under way.
  virtual Status BeginMany(std::span<const CopyPiece> pieces, uint64_t bytes);

  // Whether BeginSummed works here.
  virtual bool sums() const { return false; }
  // As Begin. Sets `copy`, the copy's name for SumOf.
  virtual Status BeginSummed(uint64_t from_offset, uint64_t to_offset, uint64_t bytes,
                             uint64_t* copy);
  // The checksum of such a copy. Call it once for each, after a mark that names the copy has been
  // reached, also if the copy has failed. DATA_LOSS (CHECKSUM_MISMATCH) if the bytes have arrived
  // and the two ends' checksums differ; other copies of the route are not affected.
  virtual Result<SmallSum> SumOf(uint64_t copy);

  // Names what was begun so far. Marks grow, and each costs something: one for a batch of copies is
  // best.
  virtual uint64_t Mark() = 0;

  // Whether the hardware no longer uses anything that the mark names. `failure` says why one of
  // those copies may not have arrived; it is left alone where all have.
  virtual bool Reached(uint64_t mark, Status* failure) = 0;

  // Any thread, but not after it may have been released: copies that wait for another node are
  // given up, and end as failures.
  virtual void Cancel() {}

  // Stays good when the route is gone.
  virtual std::shared_ptr<const SmallSteps> steps() const = 0;
  // Likewise of BeginMany.
  virtual std::shared_ptr<const SmallSteps> list_steps() const { return steps(); }
};

}  // namespace onecopy
