// Memory behind legacy handles, as other GPUs' contexts see it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "onecopy/result.h"
#include "transport/core/base/mutex.h"
#include "transport/core/contracts/region.h"
#include "transport/memory/cuda/gpu.h"
#include "transport/memory/cuda/ipc_cache.h"

namespace onecopy::cuda {

// The driver copies in one pass to memory behind a legacy handle only where the copying GPU's own
// context has opened the handle; elsewhere it silently goes through host memory. So such a
// region has one address for each GPU that writes it. They stay, for the next route, until the
// region goes or the GPU's context closes, and do not keep that open by themselves.
//
// Any thread that may block. Must be held by a shared_ptr.
class PeerAliases : public std::enable_shared_from_this<PeerAliases> {
 public:
  // Before the region is shared: it begins `offset` bytes into what `handle` opens.
  void Remember(Region& region, std::string handle, uint64_t offset);

  bool Remembers(const Region& region);

  // Where `gpu` writes the region: the region's own address, unless it was remembered and lies on
  // another GPU. `opened` are the handles that are open in the GPU's context, which the caller
  // keeps open. The driver's own error as NO_PEER_ACCESS.
  Result<CUdeviceptr> AddressFor(const Region& region, Gpu& gpu,
                                 const std::shared_ptr<IpcCache>& opened);

  // The GPU's thread, before its context closes.
  void DropAllOf(Gpu& gpu);

 private:
  struct Alias {
    CUdeviceptr address = 0;  // of the region's first byte
    std::shared_ptr<IpcCache> opened;
  };
  // An alias is here only while its GPU's context is open: closing that takes the mutex.
  struct Entry {
    std::string handle;
    uint64_t offset = 0;
    std::map<Gpu*, Alias> aliases;
  };

  void Forget(const Region* region);

  Mutex mutex_;
  std::map<const Region*, Entry> entries_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::cuda
