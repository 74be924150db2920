// Inside the configuration: what must hold between several values.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "daemon/config/config.h"
#include "daemon/config/problems.h"

namespace onecopy::config {

// `line_of` gives the line at which a key ("lanes", "tls.ca") or a peer's section ("peers.west")
// is set; 0 where it is not.
void CheckWhole(const Config& config, const std::function<uint32_t(const std::string&)>& line_of,
                Problems& problems);

}  // namespace onecopy::config
