// Slabs that are buffers, for a pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "client/lib/pool/pool_core.h"
#include "onecopy/pool.h"
#include "onecopy/transfer.h"

namespace onecopy::client {

// Thread-safe.
class PoolSlabs : public SlabSource {
 public:
  // Of the slab that begins there; nothing where none does.
  virtual std::optional<Endpoint> EndpointOf(const std::byte* slab, uint64_t offset_bytes,
                                             uint64_t bytes) const = 0;
  virtual std::vector<PoolSlab> List() const = 0;  // by address
  virtual uint64_t managed_bytes() const { return 0; }
};

// What slabs are called: NAME.1, NAME.2, …; or nothing, so that the daemon chooses. One thread at a
// time.
class SlabNames {
 public:
  explicit SlabNames(std::string name) : name_(std::move(name)) {}
  std::string Next() { return name_.empty() ? name_ : name_ + "." + std::to_string(++made_); }

 private:
  const std::string name_;
  uint64_t made_ = 0;
};

}  // namespace onecopy::client
