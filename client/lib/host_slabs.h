// Slabs of host memory for a pool: one HostBuffer each.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/lib/pool_core.h"
#include "onecopy/client.h"
#include "onecopy/pool.h"
#include "transport/core/mutex.h"

namespace onecopy::client {

// Thread-safe.
class HostSlabs final : public SlabSource {
 public:
  // `name`: of the slabs, before a dot and a number; empty: the daemon chooses.
  HostSlabs(Client client, std::string name) : client_(std::move(client)), name_(std::move(name)) {}

  Result<Slab> Make(uint64_t bytes) override;
  Status Free(const Slab& slab) override;

  // Of the slab that begins there; nothing where none does.
  std::optional<Endpoint> EndpointOf(const std::byte* slab, uint64_t offset_bytes,
                                     uint64_t bytes) const;
  std::vector<PoolSlab> List() const;

 private:
  Client client_;
  const std::string name_;
  mutable Mutex mutex_;
  uint64_t made_ ONECOPY_GUARDED_BY(mutex_) = 0;
  std::map<const std::byte*, HostBuffer> buffers_ ONECOPY_GUARDED_BY(mutex_);
};

// Host memory knows no order but that of the caller.
class NoStreams final : public StreamOrder {
 public:
  bool Stays(StreamHandle) const override { return true; }
  Status Follow(StreamHandle, StreamHandle) override { return OkStatus(); }
  Status Synchronize() override { return OkStatus(); }
};

}  // namespace onecopy::client
