// Memory with known bytes, for probes. Everything here blocks: it is for the threads for slow
// calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/engine/base/context.h"
#include "onecopy/result.h"
#include "transport/core/contracts/region.h"

namespace onecopy::engine {

// The bytes of a pattern from `offset` on, as OpenProbeRequest.seed in peer.proto says; both ends
// of a probe make them.
void FillPattern(std::byte* out, uint64_t offset, uint64_t bytes, uint64_t seed);

// New memory at that place. NOT_FOUND for a kind that this node does not have.
Result<RegionRef> AllocateAt(Context& context, const Place& place, uint64_t bytes);

// Fills the whole region.
Status WritePattern(Context& context, const RegionRef& region, uint64_t seed);
// DATA_LOSS where a byte of the span is not the pattern's, which begins with the region.
Status CheckPattern(Context& context, const Span& span, uint64_t seed);

// The span's bytes, as the processor or a copy engine sees them.
Result<std::vector<std::byte>> ReadBytes(Context& context, const Span& span);

}  // namespace onecopy::engine
