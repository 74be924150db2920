// UCX as a backend of the daemon.
#pragma once

#include "transport/core/contracts/backend.h"

namespace onecopy::ucx {

// Viable if UCX is installed and the configuration names a node to use it with. Settings:
// trust, transports, threads, chunk_bytes, gets; devices of [rdma].
Backend<Link> Describe();

}  // namespace onecopy::ucx
