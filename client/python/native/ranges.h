// Pairs of ranges, built from arrays of numbers.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "onecopy/block_layout.h"
#include "onecopy/range.h"

namespace onecopy::python {

// Immutable. A request takes it in place of a list of pairs.
struct Ranges {
  std::vector<RangePair> pairs = {};
  std::shared_ptr<const EqualRanges> equal = {};  // instead, where all have one length

  size_t size() const { return equal == nullptr ? pairs.size() : equal->sources.size(); }
};

// Of (address, bytes of a number, whether it has a sign, shape, strides in bytes) of two arrays in
// host memory, which must stay as they are meanwhile. Shapes: (n, 2), rows of offset and bytes;
// (n, 4), of offset, bytes, stride and count; (n,), offsets of ranges of `bytes` each. Throws
// INVALID_ARGUMENT (BAD_ARGUMENT, BAD_SIZE, SIZE_MISMATCH).
Ranges PackRanges(const nanobind::tuple& source, const nanobind::tuple& destination,
                  std::optional<uint64_t> bytes);

// Immutable: numbers of blocks, copied from an array of shape (n,), likewise. `side`: "source".
struct BlockNumbers {
  std::vector<uint64_t> numbers;
};
BlockNumbers PackBlockNumbers(const nanobind::tuple& fields, const std::string& side);

// The blocks of two layouts. No ranges for no blocks. Throws as RangesOf fails.
Ranges PackBlocks(const BlockLayout& source, const BlockNumbers& source_blocks,
                  const BlockLayout& destination, const BlockNumbers& blocks);

}  // namespace onecopy::python
