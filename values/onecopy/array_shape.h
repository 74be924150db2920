// An array of any number of dimensions, as it lies in memory.
#pragma once

#include "onecopy/language.h"  // first

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "onecopy/range.h"
#include "onecopy/result.h"

namespace onecopy {

struct ArrayShape {
  std::string dtype = {};              // of its elements, by its owner's word: "float32"
  uint64_t item_bytes = 0;             // of an element, at least 1
  std::vector<uint64_t> shape = {};    // elements of each dimension, the slowest first
  std::vector<uint64_t> strides = {};  // bytes from one of them to the next, likewise

  friend bool operator==(const ArrayShape&, const ArrayShape&) = default;
};

inline constexpr size_t kMaxDimensions = 64;
inline constexpr size_t kMaxDtypeBytes = 64;

// The strides of an array without gaps, the last dimension fastest.
std::vector<uint64_t> CompactStrides(const ArrayShape& array);

// Whether its bytes are one range, in the order of its elements. `array` is sound.
bool IsContiguous(const ArrayShape& array);

// Of its elements. INVALID_ARGUMENT (BAD_SIZE) for an array without elements, one of more than 64
// bits of bytes, or strides that are not as many as the dimensions; (BAD_ARGUMENT) for more than
// kMaxDimensions or a longer dtype; (RANGES_OVERLAP) for a stride of 0, or one by which elements
// overlap those beside them.
Result<uint64_t> BytesOf(const ArrayShape& array);

// From the first byte of its first element to the last byte of any. `array` is sound.
uint64_t ExtentOf(const ArrayShape& array);

// Where its bytes lie in the order of its elements, counted from the first one; a single plain
// range where they have no gaps. INVALID_ARGUMENT (BAD_SIZE) where that takes more than kMaxRanges.
// `array` is sound.
Result<std::vector<StridedRange>> RangesOf(const ArrayShape& array);

// As people read it: "float32[64, 128]"; with strides where there are gaps.
std::string ToString(const ArrayShape& array);

}  // namespace onecopy
