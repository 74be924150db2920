// Where and when a run takes place.
#pragma once

#include <string>

#include "bench/measure/row_json.h"

namespace onecopy::bench {

// `cuda_library`: of the driver; empty: the system's.
RunFacts LookAround(const std::string& cuda_library, const std::string& version);

}  // namespace onecopy::bench
