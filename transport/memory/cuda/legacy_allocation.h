// GPU memory of cuMemAlloc that the daemon allocates.
#pragma once

#include <cstdint>
#include <memory>

#include "onecopy/result.h"
#include "transport/memory/cuda/gpu.h"

namespace onecopy::cuda {

// Ownership of one allocation. Made while the context of the GPU is open, and goes before that
// closes; any thread.
class LegacyAllocation {
 public:
  LegacyAllocation() = default;
  ~LegacyAllocation();
  LegacyAllocation(LegacyAllocation&& other) noexcept;
  LegacyAllocation& operator=(LegacyAllocation&& other) noexcept;

  // Of at least `bytes`, not cleared; whole pages that other processes map, so that they hold
  // no other allocation. NO_MEMORY.
  static Result<LegacyAllocation> Make(std::shared_ptr<Gpu> gpu, uint64_t bytes);

  CUdeviceptr address() const { return address_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<Gpu> gpu_;
  CUdeviceptr address_ = 0;  // 0: none
  uint64_t bytes_ = 0;
};

}  // namespace onecopy::cuda
