// GPU memory of this process that no other process can map: copied by the library's own threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "onecopy/result.h"
#include "transport/core/base/mutex.h"
#include "transport/core/contracts/memory.h"
#include "transport/shim/cuda_export.h"

namespace onecopy::client {

// The streams of one context, and that context held open. Any thread.
class GpuCopies {
 public:
  // FAILED_PRECONDITION (DRIVER_FAILED) where the context cannot be had.
  static Result<std::shared_ptr<GpuCopies>> Open(std::shared_ptr<const shim::CudaApi> api,
                                                 const shim::CudaOwn& own);
  ~GpuCopies();
  GpuCopies(const GpuCopies&) = delete;
  GpuCopies& operator=(const GpuCopies&) = delete;

  // Lets copies to and from that memory of the host be as fast as the bus, where the driver takes
  // it; until this ends, which must be before the memory does.
  void Pin(void* host, uint64_t bytes);

  // Waits until the bytes are there. False where the driver refuses: the memory has gone.
  bool Copy(const StridedCopy& copy, uintptr_t gpu, std::byte* host, bool to_gpu);

  // Whether the address still lies in the allocation of that number.
  bool IsStill(uintptr_t gpu, uint64_t id) const;

 private:
  explicit GpuCopies(std::shared_ptr<const shim::CudaApi> api) : api_(std::move(api)) {}

  CUstream TakeStream();
  void GiveBack(CUstream stream);

  const std::shared_ptr<const shim::CudaApi> api_;
  std::optional<shim::PrimaryCudaContext> primary_;  // where it is that one
  CUcontext context_ = nullptr;
  void* pinned_ = nullptr;
  Mutex mutex_;
  std::vector<CUstream> idle_ ONECOPY_GUARDED_BY(mutex_);
};

// One range of such memory, as the driver knew it when it was registered.
struct OwnGpu {
  std::shared_ptr<GpuCopies> copies;
  uint64_t id = 0;
};

}  // namespace onecopy::client
