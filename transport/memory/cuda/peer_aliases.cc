#include "transport/memory/cuda/peer_aliases.h"

#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::cuda {

void PeerAliases::Remember(Region& region, std::string handle, uint64_t offset) {
  {
    const MutexLock lock(mutex_);
    entries_[&region] = Entry{std::move(handle), offset, {}};
  }
  region.OnRelease([self = shared_from_this(), key = &region] { self->Forget(key); });
}

bool PeerAliases::Remembers(const Region& region) {
  const MutexLock lock(mutex_);
  return entries_.contains(&region);
}

void PeerAliases::Forget(const Region* region) {
  const MutexLock lock(mutex_);
  const auto entry = entries_.find(region);
  if (entry == entries_.end()) return;
  for (auto& [gpu, alias] : entry->second.aliases) alias.opened->Close(*gpu, entry->second.handle);
  entries_.erase(entry);
}

Result<CUdeviceptr> PeerAliases::AddressFor(const Region& region, Gpu& gpu,
                                            const std::shared_ptr<IpcCache>& opened) {
  const auto own = reinterpret_cast<CUdeviceptr>(region.address());
  if (region.place().device == gpu.info().uuid) return own;
  const MutexLock lock(mutex_);
  const auto found = entries_.find(&region);
  if (found == entries_.end()) return own;
  Entry& entry = found->second;
  if (const auto known = entry.aliases.find(&gpu); known != entry.aliases.end()) {
    return known->second.address;
  }
  const Result<IpcCache::Opened> there = opened->Open(gpu, entry.handle);
  if (!there.ok()) {
    return Status(Code::kFailedPrecondition, reasons::kNoPeerAccess,
                  gpu.ToString() + " cannot open memory of " + region.place().device + ": " +
                      there.status().message(),
                  "go through host memory with --path peer-bounce");
  }
  const CUdeviceptr address = there->address + entry.offset;
  entry.aliases[&gpu] = Alias{address, opened};
  return address;
}

void PeerAliases::DropAllOf(Gpu& gpu) {
  const MutexLock lock(mutex_);
  for (auto& [region, entry] : entries_) {
    const auto alias = entry.aliases.find(&gpu);
    if (alias == entry.aliases.end()) continue;
    alias->second.opened->Close(gpu, entry.handle);
    entry.aliases.erase(alias);
  }
}

}  // namespace onecopy::cuda
