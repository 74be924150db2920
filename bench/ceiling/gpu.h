// A GPU and memory on it, by the driver alone.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "onecopy/result.h"
#include "transport/shim/cuda.h"

namespace onecopy::bench {

using CudaRef = std::shared_ptr<const shim::CudaApi>;

// FAILED_PRECONDITION (DRIVER_FAILED) with the driver's own error, OK for CUDA_SUCCESS.
Status CudaStatus(const shim::CudaApi& api, CUresult error, const std::string& what);

// A GPU whose primary context is held open. One thread at a time.
class Gpu {
 public:
  // NOT_FOUND (DEVICE_NOT_FOUND) where the driver shows this process no GPU of that UUID.
  static Result<std::shared_ptr<Gpu>> Open(CudaRef api, const std::string& uuid);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const shim::CudaApi& api() const { return *api_; }
  CUdevice device() const { return device_; }
  CUcontext context() const { return context_; }

 private:
  Gpu(CudaRef api, CUdevice device, CUcontext context)
      : api_(std::move(api)), device_(device), context_(context) {}

  const CudaRef api_;
  const CUdevice device_;
  const CUcontext context_;
};

enum class GpuMemoryKind {
  kVmm,     // cuMemCreate, exportable, as the daemon allocates
  kMalloc,  // cuMemAlloc, as cudaMalloc gives
};

// Owns GPU memory. Goes before its Gpu, which it keeps.
class GpuMemory {
 public:
  static Result<std::unique_ptr<GpuMemory>> Allocate(std::shared_ptr<Gpu> gpu, GpuMemoryKind kind,
                                                     uint64_t bytes);
  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  CUdeviceptr address() const { return address_; }
  Gpu& gpu() const { return *gpu_; }

  // Lets another GPU read and write it directly, once; it is not an error where it does already.
  Status LetReach(const Gpu& other) const;

 private:
  GpuMemory(std::shared_ptr<Gpu> gpu, GpuMemoryKind kind) : gpu_(std::move(gpu)), kind_(kind) {}
  CUresult AllocateVmm(uint64_t bytes);

  const std::shared_ptr<Gpu> gpu_;
  const GpuMemoryKind kind_;
  CUdeviceptr address_ = 0;
  uint64_t reserved_bytes_ = 0;  // VMM
  bool mapped_ = false;          // VMM
};

}  // namespace onecopy::bench
