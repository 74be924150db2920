// What the kernel says about a descriptor that a client calls a dma-buf.
#pragma once

#include <cstdint>

#include "onecopy/result.h"

namespace onecopy::os {

// Whether the kernel names an exporter of it, as it does of dma-bufs alone and without asking
// whatever stands behind the descriptor.
bool HasDmaBufExporter(int fd);

// Its size in bytes. INVALID_ARGUMENT (BAD_HANDLE) for any other descriptor, of which nothing but
// the kernel's own account is read: one of another process may be a file whose server never
// answers.
Result<uint64_t> DmaBufBytes(int fd);

}  // namespace onecopy::os
