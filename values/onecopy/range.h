// Ranges of bytes inside something larger.
#pragma once

#include "onecopy/language.h"  // first

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "onecopy/result.h"

namespace onecopy {

struct ByteRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// OUT_OF_RANGE unless the range lies inside `total` bytes of `what`; safe against overflow.
Status CheckWithin(const ByteRange& range, uint64_t total, const std::string& what);

// True when the two have a byte in common; empty ranges overlap nothing. Both must lie inside one
// object.
bool Overlap(const ByteRange& a, const ByteRange& b);

// Whether `inner` lies inside `outer`; safe against overflow.
inline bool Contains(const ByteRange& outer, const ByteRange& inner) {
  return inner.offset >= outer.offset && inner.bytes <= outer.bytes &&
         inner.offset - outer.offset <= outer.bytes - inner.bytes;
}

// `count` elements of `bytes` bytes each; `stride` bytes lie between the beginning of one and that
// of the next. One column of an array of structures, a slice of a tensor; with one element, which
// has no stride, a plain range.
struct StridedRange {
  uint64_t offset = 0;  // of the first element
  uint64_t bytes = 0;
  uint64_t stride = 0;  // counts where there are several elements
  uint64_t count = 1;

  friend bool operator==(const StridedRange&, const StridedRange&) = default;
};

inline constexpr size_t kMaxRanges = 131072;
// Buffers at one end of a request, and pairs of a source's and a destination's buffer that its
// ranges make.
inline constexpr size_t kMaxBuffers = 4096;

// Bytes that move together: `source` in the request's source goes to `destination` in its
// destination, both counted from where that end begins. Each is a plain range {offset, bytes} or a
// strided one {offset, bytes, stride, count}: `count` elements of `bytes` bytes, `stride` bytes
// from the beginning of one to that of the next. Both have as many bytes altogether, and their
// elements may differ: a column of floats out of an array of 32-byte structures, into a plain
// array, is {{8, 4, 32, rows}, {0, 4 * rows}}.
// A request has at most kMaxRanges of them.
struct RangePair {
  StridedRange source = {};
  StridedRange destination = {};
  // Which of the request's buffers: 0 is its `source`, i the `more_sources[i - 1]`; likewise there.
  uint32_t source_buffer = 0;
  uint32_t destination_buffer = 0;

  friend bool operator==(const RangePair&, const RangePair&) = default;
};

// Ranges of one length, as columns of numbers: range i is `bytes` bytes, from sources[i] in the
// request's source to destinations[i] in its destination, in bytes from where these ends begin. For
// many blocks in any order: a range takes 16 bytes here, and 72 as a RangePair.
struct EqualRanges {
  uint64_t bytes = 0;                       // of each; at least 1
  std::vector<uint64_t> sources = {};       // at most kMaxRanges
  std::vector<uint64_t> destinations = {};  // as many
  // As in RangePair, for each range; empty: 0 for all.
  std::vector<uint32_t> source_buffers = {};
  std::vector<uint32_t> destination_buffers = {};

  friend bool operator==(const EqualRanges&, const EqualRanges&) = default;
};

// INVALID_ARGUMENT (BAD_ARGUMENT) for columns of unlike lengths.
Status CheckColumns(const EqualRanges& ranges);

}  // namespace onecopy
