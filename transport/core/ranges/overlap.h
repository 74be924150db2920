// Checks whether strided ranges of one memory share a byte.
#pragma once

#include <cstdint>
#include <span>

#include "onecopy/range.h"

namespace onecopy {

// Ranges that are sound: inside 64 bits, at least one byte, elements that do not overlap.

inline uint64_t SoundEnd(const StridedRange& range) {
  return range.offset + (range.count - 1) * range.stride + range.bytes;
}

// Exact, and quick however many elements there are.
bool Overlap(const StridedRange& a, const StridedRange& b);

// Whether each ends before the next one begins, in whatever order they stand, as most do.
bool OneAfterAnother(std::span<const StridedRange> ranges);
// The same of ranges of `bytes` bytes each, which are sound.
bool AreApart(std::span<const uint64_t> offsets, uint64_t bytes);

// What may still be spent on the search for common bytes: one budget for all checks of a request
// bounds the time that it takes, however its ranges are spread over buffers.
struct OverlapBudget {
  uint64_t comparisons = uint64_t{1} << 17;          // of two ranges
  uint64_t column_comparisons = 2 * kMaxRanges;      // of two, once they are sorted by stride
  uint64_t elements = 2 * kMaxRanges;                // of strided ranges, looked at one by one
  uint64_t element_comparisons = uint64_t{1} << 17;  // of two such
};

struct PlacedRange {
  StridedRange range;
  uint32_t side = 0;

  uint64_t end() const { return SoundEnd(range); }
};

enum class CommonByte { kNone, kFound, kGaveUp };

// Compares each with each, or with those of other sides. Gives up where ranges are interleaved so
// much that the budget does not last: columns of arrays never are, however many.
CommonByte FindCommonByte(std::span<const PlacedRange> ranges, bool of_two_sides,
                          OverlapBudget* budget);

}  // namespace onecopy
