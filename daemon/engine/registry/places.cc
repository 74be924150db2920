#include "daemon/engine/registry/places.h"

#include <memory>
#include <utility>

#include "transport/core/ranges/compose.h"

namespace onecopy::engine {

bool HasGaps(const Buffer& buffer) { return buffer.array && !IsContiguous(*buffer.array); }

Result<MemoryPlace> PlaceOf(const Buffer& buffer, const ByteRange& range, LayoutRef layout) {
  if (!HasGaps(buffer)) {
    return MemoryPlace{{buffer.offset + range.offset, range.bytes}, std::move(layout)};
  }
  const std::string what = "buffer \"" + buffer.name + "\"";
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<StridedRange> ranges, RangesOf(*buffer.array));
  ONECOPY_ASSIGN_OR_RETURN(const Layout array, Layout::Make(ranges, what));
  ONECOPY_ASSIGN_OR_RETURN(Layout part, Compose(array, range, layout.get(), what));
  // A layout counts from its own first byte on.
  const ByteRange extent{buffer.offset + part.extent().offset, part.extent().bytes};
  if (part.contiguous()) return MemoryPlace{extent, nullptr};
  return MemoryPlace{extent, std::make_shared<const Layout>(std::move(part))};
}

}  // namespace onecopy::engine
