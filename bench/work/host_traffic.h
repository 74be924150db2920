// What a transfer did to host memory, computed from its receipt.
#pragma once

#include <cstdint>

#include "onecopy/transfer.h"

namespace onecopy::bench {

// Bytes read from and written to host memory (the kernel's and its page cache included, of both
// machines) for each byte of a payload: one for each end of a step that lies there. A wire that
// never left the machine hands the kernel's pages over and touches none. Computed, not counted:
// caches may keep some of it from the memory itself.
double HostTraffic(const Receipt& receipt, uint64_t payload_bytes);

}  // namespace onecopy::bench
