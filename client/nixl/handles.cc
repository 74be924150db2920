#include "client/nixl/handles.h"

#include <utility>

namespace onecopy::nixl {

Handles::Entry& Handles::Add(abi::Metadata handle) {
  auto made = std::make_unique<abi::Metadata>(std::move(handle));
  const abi::Metadata* const key = made.get();
  Entry& entry = entries_[key];
  entry.handle = std::move(made);
  return entry;
}

Result<abi::Metadata*> Handles::Register(const abi::Descriptor& descriptor, abi::Segment segment,
                                         const Make& make) {
  const Key key{segment, descriptor.device, descriptor.address, descriptor.bytes};
  const MutexLock lock(mutex_);
  if (const auto same = registered_.find(key); same != registered_.end()) {
    ++entries_.at(same->second).registered;
    return same->second;
  }
  abi::Metadata handle;
  handle.address = descriptor.address;
  if (descriptor.bytes > 0) {
    ONECOPY_ASSIGN_OR_RETURN(handle.memory, make());
    handle.place = std::shared_ptr<const Place>(handle.memory, &handle.memory->place);
  } else {
    handle.place = std::make_shared<const Place>(Place{"", "", descriptor.address});
  }
  Entry& entry = Add(std::move(handle));
  entry.registered = 1;
  entry.key = key;
  registered_[key] = entry.handle.get();
  return entry.handle.get();
}

std::shared_ptr<const Memory> Handles::Deregister(abi::Metadata* handle) {
  const MutexLock lock(mutex_);
  const auto at = entries_.find(handle);
  if (at == entries_.end() || at->second.registered == 0) return nullptr;
  Entry& entry = at->second;
  if (--entry.registered > 0) return nullptr;
  registered_.erase(entry.key);
  std::shared_ptr<const Memory> memory = entry.handle->memory;
  DropUnused(at);
  return memory;
}

abi::Metadata* Handles::LoadLocal(abi::Metadata* handle) {
  const MutexLock lock(mutex_);
  const auto at = entries_.find(handle);
  if (at == entries_.end()) return nullptr;
  ++at->second.loaded;
  return handle;
}

abi::Metadata* Handles::LoadRemote(std::shared_ptr<const Place> place, uintptr_t address) {
  const MutexLock lock(mutex_);
  Entry& entry = Add({std::move(place), address, nullptr});
  entry.loaded = 1;
  return entry.handle.get();
}

void Handles::Unload(abi::Metadata* handle) {
  const MutexLock lock(mutex_);
  const auto at = entries_.find(handle);
  if (at == entries_.end() || at->second.loaded == 0) return;
  --at->second.loaded;
  DropUnused(at);
}

void Handles::DropUnused(Entries::iterator at) {
  if (at->second.registered == 0 && at->second.loaded == 0) entries_.erase(at);
}

}  // namespace onecopy::nixl
