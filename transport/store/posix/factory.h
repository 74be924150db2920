// Files as the kernel serves them, as a backend of the daemon.
#pragma once

#include "transport/core/contracts/backend.h"

namespace onecopy::posix {

// Always viable. Settings: io.
Backend<Store> Describe();

}  // namespace onecopy::posix
