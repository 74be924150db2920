// Slabs of host memory for a pool: one HostBuffer each.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/lib/memory/gpu_device.h"
#include "client/lib/pool/pool_slabs.h"
#include "onecopy/client.h"
#include "transport/core/base/mutex.h"

namespace onecopy::client {

class HostSlabs final : public PoolSlabs {
 public:
  // `pinned_by`: the GPU whose driver pins each slab, for all GPUs; null: none does.
  HostSlabs(Client client, std::string name, GpuDeviceRef pinned_by = nullptr)
      : client_(std::move(client)), gpu_(std::move(pinned_by)), names_(std::move(name)) {}

  Result<Slab> Make(uint64_t bytes) override;
  Status Free(const Slab& slab) override;
  std::optional<Endpoint> EndpointOf(const std::byte* slab, uint64_t offset_bytes,
                                     uint64_t bytes) const override;
  std::vector<PoolSlab> List() const override;

 private:
  // RESOURCE_EXHAUSTED (NO_MEMORY) where the system has no more pages to pin; FAILED_PRECONDITION
  // (HOST_NOT_PINNABLE).
  Status Pin(const Slab& slab) const;

  Client client_;
  const GpuDeviceRef gpu_;
  mutable Mutex mutex_;
  SlabNames names_ ONECOPY_GUARDED_BY(mutex_);
  std::map<const std::byte*, HostBuffer> buffers_ ONECOPY_GUARDED_BY(mutex_);
};

// Host memory knows no order but that of the caller.
class NoStreams final : public StreamOrder {
 public:
  Status Follow(StreamHandle, StreamHandle) override { return OkStatus(); }
  Status Wait(StreamHandle) override { return OkStatus(); }
  bool HasEnded(StreamHandle) override { return true; }
};

}  // namespace onecopy::client
