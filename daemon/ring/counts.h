// What went by one route of a ring, in numbers: the ring's thread counts, anyone may read.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "daemon/ring/outcome.h"
#include "transport/core/base/histogram.h"

namespace onecopy::ring {

inline constexpr size_t kOutcomes = static_cast<size_t>(Outcome::kDiffers) + 1;

// A number that one thread alone changes: no locked instruction, no barrier.
class OneWriterCount {
 public:
  void Add(uint64_t more) {
    value_.store(value_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  uint64_t Read() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// Notes: the ring's thread, without a lock or an allocation. Read: any thread; each number is right
// by itself, while a transfer that ends just then may be in one of them and not yet in another.
class Counts {
 public:
  struct Values {
    std::array<uint64_t, kOutcomes> failed{};  // by outcome
    DurationHistogram durations;               // of those that succeeded, as are the sizes
    SizeHistogram sizes;

    uint64_t succeeded() const { return durations.count(); }
    uint64_t bytes() const { return sizes.sum; }
    Values Since(const Values& before) const {
      Values more{failed, durations.Since(before.durations), sizes.Since(before.sizes)};
      for (size_t i = 0; i < kOutcomes; ++i) more.failed[i] -= before.failed[i];
      return more;
    }
  };

  void NoteSuccess(uint64_t bytes, std::chrono::nanoseconds took) {
    sizes_[SizeClasses::Of(bytes)].Add(1);
    bytes_.Add(bytes);
    durations_[DurationClasses::Of(took)].Add(1);
    nanoseconds_.Add(DurationClasses::Amount(took));
  }
  void NoteFailure(Outcome outcome) { failed_[static_cast<size_t>(outcome)].Add(1); }

  Values Read() const {
    Values values;
    for (size_t i = 0; i < kOutcomes; ++i) values.failed[i] = failed_[i].Read();
    for (size_t i = 0; i < kDurationClasses; ++i) values.durations.counts[i] = durations_[i].Read();
    values.durations.sum = nanoseconds_.Read();
    for (size_t i = 0; i < kSizeClasses; ++i) values.sizes.counts[i] = sizes_[i].Read();
    values.sizes.sum = bytes_.Read();
    return values;
  }

 private:
  OneWriterCount bytes_;
  OneWriterCount nanoseconds_;
  std::array<OneWriterCount, kDurationClasses> durations_;
  std::array<OneWriterCount, kSizeClasses> sizes_;
  std::array<OneWriterCount, kOutcomes> failed_;
};

}  // namespace onecopy::ring
