// A neighbour that keeps the GPUs' compute engines busy.
#pragma once

#include <functional>
#include <string>

#include "onecopy/status.h"

namespace onecopy::bench {

struct LoadOptions {
  std::string cuda_library;       // empty: the system's
  std::function<void()> started;  // every GPU is busy now
  std::function<bool()> stopped;  // asked after each kernel, on several threads
};

// Runs kernels of some milliseconds on all processors of each GPU that the driver shows, one after
// the other, until `stopped`. Blocks. NO_GPU and the like where there is nothing to keep busy; else
// the driver's own error.
Status KeepGpusBusy(const LoadOptions& options);

}  // namespace onecopy::bench
