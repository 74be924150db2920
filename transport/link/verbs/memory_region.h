// Memory that devices know: each region once per device, for as long as it lives.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/core/base/mutex.h"
#include "transport/core/contracts/link.h"
#include "transport/core/contracts/region.h"
#include "transport/link/verbs/device.h"

namespace onecopy::verbs {

// Ownership of one registration. Deregistered when it goes, which may block.
class MemoryRegion {
 public:
  MemoryRegion() = default;
  MemoryRegion(std::shared_ptr<Device> device, ibv_mr* region, uint64_t base)
      : device_(std::move(device)), region_(region), base_(base) {}
  ~MemoryRegion();
  MemoryRegion(MemoryRegion&& other) noexcept;
  MemoryRegion& operator=(MemoryRegion&& other) noexcept;

  explicit operator bool() const { return region_ != nullptr; }
  ibv_mr* get() const { return region_; }
  uint32_t lkey() const { return region_->lkey; }
  uint32_t rkey() const { return region_->rkey; }
  // What the device calls the region's first byte.
  uint64_t base() const { return base_; }

 private:
  std::shared_ptr<Device> device_;
  ibv_mr* region_ = nullptr;
  uint64_t base_ = 0;
};

// How one device knows a region.
struct DeviceMemory {
  std::shared_ptr<Device> device;
  MemoryRegion region;  // empty where it could not be registered
  std::string how;      // "host", "dma-buf", "peermem"
  Status status;
};

// What devices know of one region: those that have been asked. Immutable once it is made.
struct KnownMemory {
  std::vector<std::shared_ptr<const DeviceMemory>> devices;

  // Null where that device does not know it.
  const DeviceMemory* On(const Device* device) const;
  bool Usable() const;  // by any device
};

// Why a device does not register that much host memory: MEMLOCK where the process's limit is in the
// way, else HOST_NOT_PINNABLE.
Status HostRefused(const Device& device, uint64_t bytes, int error);

// Registers with one device. `access` as of ibv_reg_mr. For host memory by its address; for other
// memory by its dma-buf, and by its address (nvidia-peermem) where there is none or the device
// takes none. Blocks. Fails with the reason why the device cannot use the memory
// (HOST_NOT_PINNABLE, MEMLOCK, GPU_NOT_PINNABLE).
Result<DeviceMemory> RegisterWith(const std::shared_ptr<Device>& device, Region& region,
                                  unsigned access);

// The same of a piece of host memory and nothing else of its region; the registration does not hold
// the region.
Result<DeviceMemory> RegisterSpan(const std::shared_ptr<Device>& device, const Span& span,
                                  unsigned access);

// Any thread.
class MemoryTable : public std::enable_shared_from_this<MemoryTable> {
 public:
  explicit MemoryTable(std::vector<std::shared_ptr<Device>> devices)
      : devices_(std::move(devices)) {}

  // See Link::Register. Blocks: as long as the slowest of the devices that it asks, which it does
  // at once; for one call at a time about one region.
  Result<std::vector<NicRegistration>> Register(const RegionRef& region,
                                                const std::vector<std::string>& nics);
  // Null for what has not been registered.
  std::shared_ptr<const KnownMemory> Find(const Region& region) const;

 private:
  struct Entry {
    Mutex registering;  // one call at a time
    mutable Mutex mutex;
    // Null before the first success.
    std::shared_ptr<const KnownMemory> known ONECOPY_GUARDED_BY(mutex);
  };
  std::shared_ptr<Entry> EntryOf(const RegionRef& region);
  // Devices that have not been asked, of these ports or all.
  std::vector<std::shared_ptr<Device>> Unasked(const KnownMemory& known,
                                               const std::vector<std::string>& nics) const;

  const std::vector<std::shared_ptr<Device>> devices_;
  mutable Mutex mutex_;
  std::unordered_map<const Region*, std::shared_ptr<Entry>> entries_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::verbs
