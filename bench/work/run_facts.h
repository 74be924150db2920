// Where and when a run takes place.
#pragma once

#include <string>

#include "bench/daemons/daemon.h"
#include "bench/measure/row_json.h"

namespace onecopy::bench {

// `daemon`: as the works start them.
RunFacts LookAround(const DaemonOptions& daemon, const std::string& version);

}  // namespace onecopy::bench
