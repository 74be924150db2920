// CUDA contexts for UCX, which takes the calling thread's current one: without one it cannot make a
// GPU's memory known, nor use a peer's.
#pragma once

#include <cuda.h>

#include <map>
#include <memory>

#include "onecopy/result.h"
#include "transport/core/base/mutex.h"
#include "transport/shim/cuda.h"

namespace onecopy::ucx {

// Any thread. What it has opened stays open as long as it lives: UCX keeps streams and mappings of
// peers' memory in them, and does not survive their end.
class GpuContexts {
 public:
  GpuContexts() = default;
  ~GpuContexts();
  GpuContexts(const GpuContexts&) = delete;
  GpuContexts& operator=(const GpuContexts&) = delete;

  // The primary context of the GPU that `address` is on, as the calling thread's current one.
  Status UseFor(const void* address);
  // Any that was opened, for a call that wants one and does not care which; none if there is none.
  void UseAny();

 private:
  Mutex mutex_;
  std::shared_ptr<const shim::CudaApi> api_ ONECOPY_GUARDED_BY(mutex_);
  std::map<int, CUcontext> open_ ONECOPY_GUARDED_BY(mutex_);  // by ordinal
};

}  // namespace onecopy::ucx
