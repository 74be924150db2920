// A GPU of this process, for what the library allocates there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "onecopy/result.h"
#include "transport/shim/cuda.h"

namespace onecopy::client {

// Holds the GPU's primary context open. Immutable; any thread.
class GpuDevice {
 public:
  // NOT_FOUND (DEVICE_NOT_FOUND) where the driver has no such GPU; FAILED_PRECONDITION
  // (DRIVER_FAILED) where its context cannot be opened.
  static Result<std::shared_ptr<const GpuDevice>> Open(std::shared_ptr<const shim::CudaApi> api,
                                                       int number);
  // One whose context this process has open already, or else the first.
  static Result<std::shared_ptr<const GpuDevice>> OpenAny(std::shared_ptr<const shim::CudaApi> api);

  const shim::CudaApi& api() const { return *api_; }
  const std::shared_ptr<const shim::CudaApi>& api_ref() const { return api_; }
  CUdevice device() const { return device_; }
  CUcontext context() const { return context_.get(); }
  int number() const { return number_; }
  const shim::CudaUuid& uuid() const { return uuid_; }
  uint64_t total_bytes() const { return total_bytes_; }
  // Whether the driver says so of the GPU.
  bool Has(CUdevice_attribute attribute) const;
  std::string ToString() const;  // "GPU 0 (NVIDIA H100 80GB HBM3)"

  // FAILED_PRECONDITION (DRIVER_FAILED): "making an event on GPU 0 (…): CUDA_ERROR_…".
  Status Failure(const std::string& what, CUresult error) const;

  // Makes the context the thread's current one for a scope, in which what is called spoils no
  // capture of a graph on another thread.
  class Scope {
   public:
    explicit Scope(const GpuDevice& gpu)
        : gpu_(gpu), context_(*gpu.api_, gpu.context_.get()), relaxed_(*gpu.api_) {}
    // The driver may have ended before the caller has, as the process does.
    Status status() const {
      return context_.outcome() == CUDA_SUCCESS
                 ? OkStatus()
                 : gpu_.Failure("entering the context", context_.outcome());
    }

   private:
    const GpuDevice& gpu_;
    const shim::ScopedCudaContext context_;
    const shim::NotCapturing relaxed_;
  };

 private:
  GpuDevice(std::shared_ptr<const shim::CudaApi> api, CUdevice device, int number)
      : api_(std::move(api)), device_(device), number_(number), context_(*api_, device) {}

  const std::shared_ptr<const shim::CudaApi> api_;
  const CUdevice device_;
  const int number_;
  const shim::PrimaryCudaContext context_;
  shim::CudaUuid uuid_;
  std::string name_;
  uint64_t total_bytes_ = 0;
};

using GpuDeviceRef = std::shared_ptr<const GpuDevice>;

}  // namespace onecopy::client
