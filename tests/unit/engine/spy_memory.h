// Memory that remembers what it has allocated, for tests that look at what others left there.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/core/base/mutex.h"
#include "transport/core/contracts/memory.h"

namespace onecopy::testing {

class Allocated {
 public:
  // Regions that name the same bytes; their owner may be gone.
  std::vector<RegionRef> all() const {
    const MutexLock lock(mutex_);
    return regions_;
  }
  void Add(const Region& region) {
    const MutexLock lock(mutex_);
    regions_.push_back(std::make_shared<Region>(region.place(), region.address(), region.bytes(),
                                                region.cpu_addressable(), [] {}));
  }

 private:
  mutable Mutex mutex_;
  std::vector<RegionRef> regions_ ONECOPY_GUARDED_BY(mutex_);
};

class SpyMemory : public Memory {
 public:
  SpyMemory(std::unique_ptr<Memory> memory, std::shared_ptr<Allocated> allocated)
      : memory_(std::move(memory)), allocated_(std::move(allocated)) {}

  const std::string& kind() const override { return memory_->kind(); }
  std::vector<MemoryCapability> Describe() const override { return memory_->Describe(); }
  Result<std::string> FindDevice(const std::string& typed) const override {
    return memory_->FindDevice(typed);
  }
  Result<std::unique_ptr<Region>> Allocate(const std::string& device, uint64_t bytes) override {
    auto region = memory_->Allocate(device, bytes);
    if (region.ok()) allocated_->Add(**region);
    return region;
  }
  Result<std::unique_ptr<Region>> Import(const ImportRequest& request) override {
    return memory_->Import(request);
  }
  bool Copies(const Place& from, const Place& to) const override {
    return memory_->Copies(from, to);
  }
  Result<std::unique_ptr<CopyRoute>> Prepare(const RegionRef& from, const RegionRef& to) override {
    return memory_->Prepare(from, to);
  }
  bool prepares_at_once() const override { return memory_->prepares_at_once(); }
  Result<std::unique_ptr<SmallCopyRoute>> PrepareSmall(const RegionRef& from,
                                                       const RegionRef& to) override {
    return memory_->PrepareSmall(from, to);
  }
  Result<std::unique_ptr<SmallCopyRoute>> PrepareLong(const RegionRef& from,
                                                      const RegionRef& to) override {
    return memory_->PrepareLong(from, to);
  }
  Status CloseDevice(const std::string& device) override { return memory_->CloseDevice(device); }

 private:
  const std::unique_ptr<Memory> memory_;
  const std::shared_ptr<Allocated> allocated_;
};

}  // namespace onecopy::testing
