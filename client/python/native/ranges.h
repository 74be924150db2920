// Pairs of ranges, built from arrays of numbers.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "onecopy/range.h"

namespace onecopy::python {

// Immutable. A request takes it in place of a list of pairs.
struct Ranges {
  std::vector<RangePair> pairs;
};

// Of (address, bytes of a number, whether it has a sign, shape, strides in bytes) of two arrays in
// host memory, which must stay as they are meanwhile. Shapes: (n, 2), rows of offset and bytes;
// (n, 4), of offset, bytes, stride and count; (n,), offsets of ranges of `bytes` each. Throws
// INVALID_ARGUMENT (BAD_ARGUMENT, BAD_SIZE, SIZE_MISMATCH).
Ranges PackRanges(const nanobind::tuple& source, const nanobind::tuple& destination,
                  std::optional<uint64_t> bytes);

}  // namespace onecopy::python
