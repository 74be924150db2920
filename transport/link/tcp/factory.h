// Plain sockets as a backend of the daemon.
#pragma once

#include "transport/core/contracts/backend.h"

namespace onecopy::tcp {

// Viable wherever its port can be had; creating it fails where it cannot. Settings: lanes,
// threads, chunk_bytes, gets_per_lane, spin.
Backend<Link> Describe();

}  // namespace onecopy::tcp
