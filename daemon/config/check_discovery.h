// Inside the configuration: what [discovery] may say, as a whole.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/config/config.h"
#include "daemon/config/problems.h"

namespace onecopy::config {

// "https://10.0.0.1:2379" or "http://…", with a host and a port of their own and nothing after it.
std::optional<EtcdEndpoint> ParseEtcdEndpoint(std::string_view text);

// Adds everything that is missing or contradictory, with its line and what to do.
void CheckDiscovery(const Config& config,
                    const std::function<uint32_t(const std::string&)>& line_of, Problems& problems);

}  // namespace onecopy::config
