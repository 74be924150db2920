// Counts of durations and sizes by class. A class has all values up to its bound, and more than the
// bound of the class before it; the last class has what is beyond all bounds.
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace onecopy {

// 10 µs to 10 s, in steps of about three.
struct DurationClasses {
  using Value = std::chrono::nanoseconds;
  static constexpr std::array<int64_t, 13> kBounds = {
      10'000,     30'000,      100'000,     300'000,       1'000'000,     3'000'000,     10'000'000,
      30'000'000, 100'000'000, 300'000'000, 1'000'000'000, 3'000'000'000, 10'000'000'000};

  static constexpr size_t Of(Value value) {
    size_t place = 0;
    while (place < kBounds.size() && value.count() > kBounds[place]) ++place;
    return place;
  }
  // What a sum grows by.
  static constexpr uint64_t Amount(Value value) {
    return value.count() < 0 ? 0 : static_cast<uint64_t>(value.count());
  }
};

// 1 KiB to 64 GiB, in steps of four.
struct SizeClasses {
  using Value = uint64_t;
  static constexpr size_t kBoundCount = 14;
  static constexpr uint64_t Bound(size_t place) { return uint64_t{1024} << (2 * place); }

  static constexpr size_t Of(Value value) {
    if (value <= Bound(0)) return 0;
    const auto place = static_cast<size_t>(std::bit_width(value - 1) - 9) / 2;
    return place < kBoundCount ? place : kBoundCount;
  }
  static constexpr uint64_t Amount(Value value) { return value; }
};

inline constexpr size_t kDurationClasses = DurationClasses::kBounds.size() + 1;
inline constexpr size_t kSizeClasses = SizeClasses::kBoundCount + 1;

// A plain value: its owner uses it on one thread.
template <typename Classes, size_t kClasses>
struct Histogram {
  std::array<uint64_t, kClasses> counts{};
  uint64_t sum = 0;  // nanoseconds, bytes

  void Note(typename Classes::Value value) {
    ++counts[Classes::Of(value)];
    sum += Classes::Amount(value);
  }
  Histogram& operator+=(const Histogram& other) {
    for (size_t i = 0; i < kClasses; ++i) counts[i] += other.counts[i];
    sum += other.sum;
    return *this;
  }
  // What has been added since `before`, which it was once.
  Histogram Since(const Histogram& before) const {
    Histogram more = *this;
    for (size_t i = 0; i < kClasses; ++i) more.counts[i] -= before.counts[i];
    more.sum -= before.sum;
    return more;
  }
  uint64_t count() const {
    uint64_t all = 0;
    for (const uint64_t one : counts) all += one;
    return all;
  }
};

using DurationHistogram = Histogram<DurationClasses, kDurationClasses>;
using SizeHistogram = Histogram<SizeClasses, kSizeClasses>;

}  // namespace onecopy
