// What the backends of a build add to the configuration file.
#pragma once

#include "daemon/config/config.h"
#include "transport/core/contracts/backend.h"

namespace onecopy {

config::Schema SchemaOf(const Backends& backends);

}  // namespace onecopy
