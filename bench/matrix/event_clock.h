// The driver's clock for events, which the shim's table of functions does not have.
#pragma once

#include <cuda.h>

#include <string>

#include "onecopy/result.h"

namespace onecopy::bench {

using EventElapsed = CUresult (*)(float* milliseconds, CUevent begin, CUevent end);

// cuEventElapsedTime of that driver (empty: the system's); null where it has none. NO_DRIVER as
// shim::LoadCuda.
Result<EventElapsed> FindEventElapsed(const std::string& cuda_library);

}  // namespace onecopy::bench
