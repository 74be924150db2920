// Where bytes of a buffer lie in its memory: a view is a part of another buffer's.
#pragma once

#include "daemon/engine/registry/buffers.h"
#include "transport/core/ranges/layout.h"

namespace onecopy::engine {

// In the buffer's region.
struct MemoryPlace {
  ByteRange range;   // from the first byte to the last one
  LayoutRef layout;  // where the bytes lie in there; null: they are all of it

  uint64_t payload() const { return layout == nullptr ? range.bytes : layout->bytes(); }
};

// Of a range inside the buffer or, with a layout, of ranges in there, which count from where that
// begins. INVALID_ARGUMENT (BAD_SIZE) where they are too many pieces of an array with gaps.
Result<MemoryPlace> PlaceOf(const Buffer& buffer, const ByteRange& range, LayoutRef layout);

// Whether the buffer's bytes are not one range of its memory.
bool HasGaps(const Buffer& buffer);

}  // namespace onecopy::engine
