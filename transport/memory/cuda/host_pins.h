// Host memory that the driver has pinned, so that a copy to or from it is one pass.
#pragma once

#include <memory>
#include <unordered_map>

#include "onecopy/result.h"
#include "transport/core/base/mutex.h"
#include "transport/core/contracts/region.h"
#include "transport/memory/cuda/gpu.h"

namespace onecopy::cuda {

// A region is pinned once, for all GPUs, in the context of the GPU that first needs it. The pin
// stays, so that the next route finds it, until the region goes or that context closes; it does not
// keep the context open by itself.
//
// Any thread that may block.
class HostPins : public std::enable_shared_from_this<HostPins> {
 public:
  // Pins `region` unless it is pinned. What comes back keeps the pin; the caller holds a use of
  // `gpu` meanwhile. HOST_NOT_PINNABLE with the driver's own error; GPU_LOST.
  Result<GpuUse> Pin(const RegionRef& region, Gpu& gpu);

  // The GPU's thread, before its context closes: unpins what is pinned in it.
  void DropAllOf(Gpu& gpu);

 private:
  // The owner's context is open for as long as its pin is here: closing it takes the mutex.
  struct Entry {
    Mutex mutex;
    void* address = nullptr;  // of whole pages
    size_t bytes = 0;
    Gpu* owner ONECOPY_GUARDED_BY(mutex) = nullptr;  // null: not pinned
  };
  using EntryRef = std::shared_ptr<Entry>;

  EntryRef FindOrAdd(Region& region);
  void Forget(const Region* region);
  static void Unpin(Entry& entry) ONECOPY_REQUIRES(entry.mutex);

  Mutex mutex_;
  std::unordered_map<const Region*, EntryRef> entries_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::cuda
