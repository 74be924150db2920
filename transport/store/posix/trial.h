// Two ways of reading, measured by one file that is read in both.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace onecopy::posix {

// A beginning of one file that is read by turns, a segment the first way and one the second. The
// lane's thread of that file.
class Trial {
 public:
  static constexpr uint64_t kSegmentBytes = uint64_t{32} << 20;
  static constexpr size_t kPairs = 3;
  static constexpr size_t kSegments = 2 * kPairs;
  static constexpr std::chrono::seconds kLongest{4};

  // `begin`: where the first segment does.
  explicit Trial(uint64_t begin, uint64_t segment_bytes = kSegmentBytes)
      : begin_(begin), segment_bytes_(segment_bytes) {}

  // Which segment a byte is in; kSegments: none, it is tried no more.
  size_t SegmentOf(uint64_t offset) const;
  // Who begins takes turns, too, so that whatever else happens meets both.
  static bool IsFirst(size_t segment) { return segment % 4 == 0 || segment % 4 == 3; }

  // A segment took so long, with nothing of another beside it.
  void Note(size_t segment, std::chrono::duration<double> time);
  bool over() const { return noted_ == kSegments || total_ > kLongest; }

  // The rate of the first way over that of the second, of each pair, the least first; absent as
  // long as not all has been measured, or where that would take too long.
  using Ratios = std::array<double, kPairs>;
  std::optional<Ratios> Compare() const;

 private:
  const uint64_t begin_;
  const uint64_t segment_bytes_;
  std::array<double, kSegments> seconds_{};
  size_t noted_ = 0;
  std::chrono::duration<double> total_{0};
};

}  // namespace onecopy::posix
