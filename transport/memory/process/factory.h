// Ordinary memory of clients' processes as a backend of the daemon.
#pragma once

#include "transport/core/contracts/backend.h"

namespace onecopy::process {

// Always viable: whether a client's library can copy is for that one to show. Settings: slab_bytes,
// patience.
Backend<Memory> Describe();

}  // namespace onecopy::process
