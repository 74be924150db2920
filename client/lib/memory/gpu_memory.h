// Memory that the library allocates on a GPU, and registers.
#pragma once

#include <cstdint>
#include <string>

#include "client/lib/memory/gpu_device.h"
#include "client/lib/session/registered_memory.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::client {

// One allocation of cuMemCreate (form cuda-vmm), whatever lies behind it where this process has
// mapped it. Keeps the allocation as its descriptor does: it goes with the last mapping and this.
class GpuMemory final : public RegisteredMemory {
 public:
  GpuMemory(std::string name, uint64_t bytes, std::string uuid, os::UniqueFd fd)
      : RegisteredMemory(std::move(name), bytes),
        uuid_(std::move(uuid)),
        bytes_(bytes),
        fd_(std::move(fd)) {}

 private:
  Result<BufferInfo> RegisterAs(Session& session, v1::RegisterBufferRequest request) override;

  const std::string uuid_;
  const uint64_t bytes_;
  const os::UniqueFd fd_;
};

// Managed memory of cuMemAllocManaged, which the library's threads copy (form process-gpu). The
// memory is its owner's to free, once the registration has ended.
class ManagedMemory final : public RegisteredMemory {
 public:
  ManagedMemory(std::string name, uint64_t bytes, GpuDeviceRef gpu, CUdeviceptr address)
      : RegisteredMemory(std::move(name), bytes),
        gpu_(std::move(gpu)),
        address_(address),
        bytes_(bytes) {}

 private:
  // One at a time.
  Result<BufferInfo> RegisterAs(Session& session, v1::RegisterBufferRequest request) override;
  void GiveUp(Session& session) override { session.own_memory().Remove(region_); }

  const GpuDeviceRef gpu_;
  const CUdeviceptr address_;
  const uint64_t bytes_;
  std::string asked_;    // the id of the last request,
  uint64_t region_ = 0;  // and what it named
};

}  // namespace onecopy::client
