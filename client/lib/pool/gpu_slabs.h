// Slabs of a GPU's memory for a pool: allocations of cuMemCreate, side by side in one range of
// addresses, each a buffer of its own; and managed memory for what the GPU has no room for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/lib/memory/gpu_device.h"
#include "client/lib/pool/pool_slabs.h"
#include "client/lib/session/connection.h"
#include "transport/core/base/mutex.h"

namespace onecopy::client {

class GpuSlabs final : public PoolSlabs {
 public:
  // Reserves the addresses: of limit_bytes, but of no more than twice the GPU's memory.
  // FAILED_PRECONDITION (NOT_SHAREABLE) where the GPU's memory cannot be shared with the daemon,
  // (DRIVER_FAILED); RESOURCE_EXHAUSTED (NO_MEMORY) for addresses.
  static Result<std::unique_ptr<GpuSlabs>> Open(std::shared_ptr<Connection> connection,
                                                GpuDeviceRef gpu, const PoolOptions& options);
  // No slab is left.
  ~GpuSlabs() override;

  uint64_t granularity() const { return granularity_; }

  // RESOURCE_EXHAUSTED (NO_MEMORY) where the GPU or the range of addresses is full, and nothing is
  // to be managed, or the host is full, too. As RegisterBuffer for the daemon. Not zeroed.
  Result<Slab> Make(uint64_t bytes) override;
  Status Free(const Slab& slab) override;
  std::optional<Endpoint> EndpointOf(const std::byte* slab, uint64_t offset_bytes,
                                     uint64_t bytes) const override;
  std::vector<PoolSlab> List() const override;
  uint64_t managed_bytes() const override;

 private:
  struct Held {
    uint64_t bytes = 0;
    bool managed = false;
    std::shared_ptr<RegisteredMemory> memory;
  };

  GpuSlabs(std::shared_ptr<Connection> connection, GpuDeviceRef gpu, const PoolOptions& options);

  Status Reserve(uint64_t limit_bytes);
  Status Full(const char* what, uint64_t bytes) const;
  // Where in the reserved range as much is free; nothing where nowhere.
  std::optional<CUdeviceptr> FreeAddress(uint64_t bytes) const ONECOPY_REQUIRES(mutex_);
  Result<std::pair<CUdeviceptr, Held>> MapOnGpu(const std::string& name, uint64_t bytes)
      ONECOPY_REQUIRES(mutex_);
  Result<os::UniqueFd> CreateAt(CUdeviceptr address, uint64_t bytes) const;
  Result<std::pair<CUdeviceptr, Held>> Manage(const std::string& name, uint64_t bytes) const;
  void Release(CUdeviceptr address, const Held& held) const;

  const std::shared_ptr<Connection> connection_;
  const GpuDeviceRef gpu_;
  const bool managed_overflow_;
  CUmemAllocationProp properties_{};
  uint64_t granularity_ = 0;
  CUdeviceptr range_ = 0;
  uint64_t range_bytes_ = 0;
  mutable Mutex mutex_;
  SlabNames names_ ONECOPY_GUARDED_BY(mutex_);
  std::map<CUdeviceptr, Held> slabs_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::client
