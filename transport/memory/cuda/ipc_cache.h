// Legacy IPC handles (cudaMalloc memory of clients) that are open on one GPU.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "onecopy/result.h"
#include "transport/core/base/mutex.h"
#include "transport/memory/cuda/gpu.h"

namespace onecopy::cuda {

// A handle is opened once and counted: the driver refuses to map the same memory twice. Any thread
// that may block; the GPU's context must be open throughout.
class IpcCache {
 public:
  struct Opened {
    CUdeviceptr address = 0;  // where the exported allocation begins
    uint64_t bytes = 0;       // from there on
  };

  // BAD_HANDLE, with the driver's own error, for what is not a handle, for a handle of freed memory
  // or of this process; also for memory that lies on another GPU.
  Result<Opened> Open(Gpu& gpu, const std::string& handle);
  void Close(Gpu& gpu, const std::string& handle);

 private:
  struct Entry {
    Opened opened;
    unsigned users = 0;
  };

  Mutex mutex_;
  std::map<std::string, Entry> entries_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::cuda
