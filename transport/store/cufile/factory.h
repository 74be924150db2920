// GPUDirect Storage, as a backend of the daemon.
#pragma once

#include "transport/core/contracts/backend.h"

namespace onecopy::cufile {

// Viable where a process of its own has shown that it works. Settings: use, threads, slice,
// batch, probe_limit, probe_folder. With use = "on" its creation waits for that, and fails where it
// does not work.
Backend<Store> Describe();

}  // namespace onecopy::cufile
