#include "bench/matrix/event_clock.h"

#include "onecopy/reasons.h"
#include "transport/shim/library.h"

namespace onecopy::bench {

Result<EventElapsed> FindEventElapsed(const std::string& cuda_library) {
  ONECOPY_ASSIGN_OR_RETURN(const shim::Library library,
                           shim::Library::Open(cuda_library, "libcuda.so.1", "cuda",
                                               reasons::kNoDriver, "NVIDIA's driver"));
  return reinterpret_cast<EventElapsed>(library.Find("cuEventElapsedTime"));
}

}  // namespace onecopy::bench
