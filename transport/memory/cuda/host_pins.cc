#include "transport/memory/cuda/host_pins.h"

#include <unistd.h>

#include <vector>

#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::cuda {

HostPins::EntryRef HostPins::FindOrAdd(Region& region) {
  const MutexLock lock(mutex_);
  EntryRef& entry = entries_[&region];
  if (entry == nullptr) {
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = reinterpret_cast<uintptr_t>(region.address());
    const uintptr_t first = begin / page * page;
    const uintptr_t end = (begin + region.bytes() + page - 1) / page * page;
    entry = std::make_shared<Entry>();
    entry->address = reinterpret_cast<void*>(first);
    entry->bytes = end - first;
    region.OnRelease([self = shared_from_this(), key = &region] { self->Forget(key); });
  }
  return entry;
}

void HostPins::Forget(const Region* region) {
  EntryRef entry;
  {
    const MutexLock lock(mutex_);
    entry = entries_.at(region);
  }
  {
    const MutexLock lock(entry->mutex);
    Unpin(*entry);
  }
  // Only now: DropAllOf must find whatever is still pinned.
  const MutexLock lock(mutex_);
  entries_.erase(region);
}

void HostPins::Unpin(Entry& entry) {
  if (entry.owner == nullptr) return;
  const shim::CudaApi& api = entry.owner->api();
  const shim::ScopedCudaContext scope(api, entry.owner->context());
  api.MemHostUnregister(entry.address);
  entry.owner = nullptr;
}

Result<GpuUse> HostPins::Pin(const RegionRef& region, Gpu& gpu) {
  if (region->bytes() == 0) return *gpu.UseIfOpen();
  const EntryRef entry = FindOrAdd(*region);
  const MutexLock lock(entry->mutex);
  if (entry->owner != nullptr) {
    // An unused GPU is not kept open by what another one does.
    std::optional<GpuUse> use =
        entry->owner == &gpu ? entry->owner->UseIfOpen() : entry->owner->UseIfUsed();
    if (use) return std::move(*use);
    Unpin(*entry);  // its context is about to close, and the pin would go with it
  }
  const shim::ScopedCudaContext scope(gpu.api(), gpu.context());
  CUresult error = scope.outcome();
  if (error == CUDA_SUCCESS) {
    // Mapped, so that the scatter kernel reaches it as well.
    error = gpu.api().MemHostRegister(entry->address, entry->bytes,
                                      CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  }
  if (error != CUDA_SUCCESS) {
    const Status failure = gpu.Failure(
        error, "pinning " + FormatBytes(region->bytes()) + " of host memory for " + gpu.ToString(),
        Code::kFailedPrecondition, reasons::kHostNotPinnable,
        "use memory that the daemon allocates, or a memfd");
    if (failure.reason() != reasons::kNoMemory) return failure;
    return Status(Code::kFailedPrecondition, reasons::kHostNotPinnable, failure.message(),
                  "free host memory, or use a smaller buffer");
  }
  entry->owner = &gpu;
  return *gpu.UseIfOpen();
}

void HostPins::DropAllOf(Gpu& gpu) {
  std::vector<EntryRef> entries;
  {
    const MutexLock lock(mutex_);
    for (const auto& [region, entry] : entries_) entries.push_back(entry);
  }
  for (const EntryRef& entry : entries) {
    const MutexLock lock(entry->mutex);
    if (entry->owner == &gpu) Unpin(*entry);
  }
}

}  // namespace onecopy::cuda
