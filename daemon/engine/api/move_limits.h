// What both sides of a transfer, and all kinds of them, hold to.
#pragma once

#include <cstdint>

namespace onecopy::engine {

// Of a staged transfer and of a timed read: less is not worth its messages.
inline constexpr uint64_t kLeastChunkBytes = 4096;
// Of one chunk, where both sides are strided by unlike elements.
inline constexpr uint64_t kMostCopies = 65536;
// A driver that has not made memory ready by then, counted in stall timeouts, never will.
inline constexpr int kMemoryPatience = 10;

}  // namespace onecopy::engine
