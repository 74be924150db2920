// Copies by the processor, between memories that it reaches.
#pragma once

#include <span>

#include "transport/core/contracts/region.h"
#include "transport/core/ranges/scatter.h"

namespace onecopy::os {

// All of them, which lie inside the two. Gives no memory to bytes of `from` that have none.
// ABORTED (MEMORY_FAULT) where a page of either was not available, RESOURCE_EXHAUSTED (NO_MEMORY)
// where `to` has fewer pages than can be promised; part may then be copied.
Status CopyRegions(const Region& from, const Region& to, std::span<const StridedCopy> copies);

}  // namespace onecopy::os
