// The manual page of the configuration file.
#pragma once

#include <string>

#include "daemon/config/config.h"
#include "deploy/manual/man_page.h"

namespace onecopy::manual {

std::string PrintConfigPage(const config::Schema& schema, const ManPage& page);

}  // namespace onecopy::manual
