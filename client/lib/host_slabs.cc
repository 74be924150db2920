#include "client/lib/host_slabs.h"

#include <utility>

namespace onecopy::client {

Result<SlabSource::Slab> HostSlabs::Make(uint64_t bytes) {
  std::string name;
  if (!name_.empty()) {
    const MutexLock lock(mutex_);
    name = name_ + "." + std::to_string(++made_);
  }
  ONECOPY_ASSIGN_OR_RETURN(HostBuffer buffer, client_.CreateHostBuffer(name, bytes));
  const Slab slab{buffer.data(), buffer.bytes()};
  const MutexLock lock(mutex_);
  buffers_.emplace(slab.data, std::move(buffer));
  return slab;
}

Status HostSlabs::Free(const Slab& slab) {
  MutexLock lock(mutex_);
  auto buffer = buffers_.extract(slab.data);
  lock.Unlock();
  // Ends with the node, which is all that there is to do where the daemon has gone.
  return OkStatus();
}

std::optional<Endpoint> HostSlabs::EndpointOf(const std::byte* slab, uint64_t offset_bytes,
                                              uint64_t bytes) const {
  const MutexLock lock(mutex_);
  const auto found = buffers_.find(slab);
  if (found == buffers_.end()) return {};
  return found->second.endpoint(offset_bytes, bytes);
}

std::vector<PoolSlab> HostSlabs::List() const {
  const MutexLock lock(mutex_);
  std::vector<PoolSlab> list;
  for (const auto& [data, buffer] : buffers_) list.push_back({buffer.data(), buffer.info()});
  return list;
}

}  // namespace onecopy::client
