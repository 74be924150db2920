// Inside the configuration: from the file's table to typed values.
#pragma once

#include <toml++/toml.h>

#include "daemon/config/config.h"
#include "daemon/config/problems.h"

namespace onecopy::config {

// Reads everything there is; what is wrong is added to `problems` and leaves its default.
Config Bind(const toml::table& file, const Schema& schema, Problems& problems);

}  // namespace onecopy::config
