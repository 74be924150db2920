// Host memory as a backend of the daemon.
#pragma once

#include "transport/core/contracts/backend.h"

namespace onecopy::host {

// Always viable. Settings: copy_threads.
Backend<Memory> Describe();

}  // namespace onecopy::host
