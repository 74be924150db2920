// Memory of NVIDIA GPUs as a backend of the daemon.
#pragma once

#include "transport/core/contracts/backend.h"

namespace onecopy::cuda {

// Not viable, with its reason, without a driver or a GPU. Settings: spin_microseconds,
// peer_chunk, host_chunk, keep_open_seconds, allocation, scatter. Library: [libraries] cuda, else
// libcuda.so.1.
Backend<Memory> Describe();

}  // namespace onecopy::cuda
