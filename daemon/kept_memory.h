// Whether, and where, the daemon's memory is held while the daemon is replaced.
#pragma once

#include <memory>
#include <string>

#include "daemon/config/config.h"
#include "daemon/keep/keeper.h"
#include "onecopy/result.h"

namespace onecopy {

// As [restart] holder says; null where that is "off". The holder that the daemon starts by itself
// listens in its run directory. Fails where its program is missing, or as Keeper::Open.
Result<std::unique_ptr<keep::Keeper>> OpenKeeper(const config::Config& config,
                                                 const std::string& run_dir);

}  // namespace onecopy
