// Opens the connection to the holder that the configuration asks for.
#pragma once

#include <memory>
#include <string>

#include "daemon/config/config.h"
#include "daemon/holder_client/holder_client.h"
#include "onecopy/result.h"

namespace onecopy {

// Null if [restart] holder is "off". If it is "own", the holder listens in the run directory.
// NOT_FOUND if its program is missing; fails as HolderClient::Open does.
Result<std::unique_ptr<holder::HolderClient>> OpenHolder(const config::Config& config,
                                                         const std::string& run_dir);

}  // namespace onecopy
