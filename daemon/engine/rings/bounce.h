// Staging memory of a ring's route: short transfers whose memory the link cannot read or write go
// through it.
#pragma once

#include <cstdint>

#include "daemon/engine/base/context.h"
#include "transport/core/contracts/region.h"
#include "transport/ring/layout.h"

namespace onecopy::engine {

// As much as two of the longest transfers need, or 32 of 4 KiB.
inline constexpr uint64_t kBounceBytes = 2 * ring::kMaxBytes;

// Engine thread, where it replies. New memory of the host, zeroed, and charged to `payer` for as
// long as it lives. It belongs to one route, so no other
// route's bytes are ever in it. RESOURCE_EXHAUSTED (QUOTA, or no memory).
void MakeBounce(Context& context, const Owner& payer, Reply<RegionRef> reply);

}  // namespace onecopy::engine
