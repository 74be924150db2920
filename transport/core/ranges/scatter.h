// A payload that is gathered from ranges and scattered to others.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "onecopy/result.h"
#include "transport/core/ranges/layout.h"

namespace onecopy {

// Many ranges of one transfer, on both sides. A value that was checked when it was made.
struct Scatter {
  // Range i of the source goes to range i of the destination, element after element; both have the
  // same number of bytes, however these are strided. Fails as Layout::Make and
  // Layout::CheckDisjoint do (the destination's may not overlap, the source's may), and with
  // INVALID_ARGUMENT (SIZE_MISMATCH) for a pair of unlike sizes.
  static Result<std::shared_ptr<const Scatter>> Make(std::span<const StridedRange> source,
                                                     std::span<const StridedRange> destination);

  // Likewise, of pairs as a request has them, all of one pair of buffers. `numbers`: see Layout;
  // `asked`: how many were asked for, where that is not their number; `budget`: see
  // Layout::CheckDisjoint.
  static Result<std::shared_ptr<const Scatter>> Make(std::span<const RangePair> pairs,
                                                     std::span<const uint32_t> numbers = {},
                                                     uint64_t asked = 0,
                                                     OverlapBudget* budget = nullptr);

  // Likewise, of plain ranges of `bytes` bytes each: from sources[i] to destinations[i].
  static Result<std::shared_ptr<const Scatter>> MakeEqual(
      std::vector<uint64_t> sources, std::vector<uint64_t> destinations, uint64_t bytes,
      std::span<const uint32_t> numbers = {}, uint64_t asked = 0, OverlapBudget* budget = nullptr);

  // The same of two layouts whose ranges need not pair up: the payload is what the source's gather.
  // `ranges`: how many were requested, by the client's word.
  static Result<std::shared_ptr<const Scatter>> Join(Layout source, Layout destination,
                                                     uint64_t ranges,
                                                     OverlapBudget* budget = nullptr);

  Layout source;
  Layout destination;
  uint64_t ranges = 0;         // as asked for
  uint64_t merged_ranges = 0;  // after joining those that are neighbours on both sides
};

using ScatterRef = std::shared_ptr<const Scatter>;

// One copy of a batch: elements of `bytes` bytes, each side with its own stride. The strides count
// where there are several elements.
struct StridedCopy {
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t bytes = 0;
  uint64_t from_stride = 0;
  uint64_t to_stride = 0;
  uint64_t count = 1;

  uint64_t payload() const { return bytes * count; }
  uint64_t to_end() const { return to + (count - 1) * to_stride + bytes; }
  friend bool operator==(const StridedCopy&, const StridedCopy&) = default;
};

// Of all of them.
uint64_t PayloadOf(std::span<const StridedCopy> copies);
// What they take, in bytes of one long copy: short elements cost more than their bytes.
uint64_t CostOf(std::span<const StridedCopy> copies);

// INTERNAL unless every copy begins and ends inside regions of these sizes. Safe against overflow.
// Code that copies memory checks this itself, in every build, even after other checks: a mistake
// above it must fail one transfer, and not read or write another user's memory.
Status CheckInside(std::span<const StridedCopy> copies, uint64_t from_bytes, uint64_t to_bytes);

// One side of a piece of the payload: a layout whose first byte lies at `at`, or, where that is
// null, bytes that lie at `at` themselves.
struct ScatterEnd {
  const Layout* layout = nullptr;
  uint64_t at = 0;
};

// The copies that move bytes [offset, offset + bytes) of the payload, in its order. Their number is
// that of the pieces on both sides, or, where both are strided and their elements differ, of the
// elements.
std::vector<StridedCopy> CopiesOf(const ScatterEnd& from, const ScatterEnd& to, uint64_t offset,
                                  uint64_t bytes);

// The largest chunk up to `chunk_bytes` of which CopiesOf makes about `most_copies` at most, apart
// from one for each piece; of pieces of one length, about 4,096. Either may be null.
uint64_t ChunkFor(const Layout* from, const Layout* to, uint64_t chunk_bytes, uint64_t most_copies);

}  // namespace onecopy
