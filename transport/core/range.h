// A range of bytes inside something larger.
#pragma once

#include <cstdint>
#include <string>

#include "transport/core/result.h"

namespace onecopy {

struct ByteRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// OUT_OF_RANGE unless the range lies inside `total` bytes of `what`; safe against overflow.
Status CheckWithin(const ByteRange& range, uint64_t total, const std::string& what);

// Whether one range lies inside another; safe against overflow.
inline bool Contains(const ByteRange& outer, const ByteRange& inner) {
  return inner.offset >= outer.offset && inner.bytes <= outer.bytes &&
         inner.offset - outer.offset <= outer.bytes - inner.bytes;
}

// True when the two have a byte in common; empty ranges overlap nothing. Both must lie inside one
// object.
bool Overlap(const ByteRange& a, const ByteRange& b);

}  // namespace onecopy
