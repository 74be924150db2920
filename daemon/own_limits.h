// What the limits of this process keep it from.
#pragma once

#include <cstdint>

namespace onecopy {

// Logs a warning for each limit that makes the daemon do less, or slower, than it could: it serves
// all the same. `slot_bytes`: of all staging slots together, which it would lock in memory.
void TellOwnLimits(uint64_t slot_bytes);

}  // namespace onecopy
