// Whether one range lies inside another.
#pragma once

#include "transport/core/range.h"

namespace onecopy {

// Safe against overflow.
inline bool Contains(const ByteRange& outer, const ByteRange& inner) {
  return inner.offset >= outer.offset && inner.bytes <= outer.bytes &&
         inner.offset - outer.offset <= outer.bytes - inner.bytes;
}

}  // namespace onecopy
