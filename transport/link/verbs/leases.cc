#include "transport/link/verbs/leases.h"

#include <algorithm>
#include <vector>

namespace onecopy::verbs {

template <typename Ended>
void Leases::Drop(Ended ended) {
  std::vector<Entry> dropped;  // deregistered outside the lock
  const MutexLock lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (!ended(it->second)) {
      ++it;
      continue;
    }
    if (!it->second.retired) to_share_.erase(it->second.key);
    dropped.push_back(std::move(it->second));
    it = entries_.erase(it);
  }
}

Result<Leases::Lease> Leases::Take(const std::string& peer, const std::shared_ptr<Device>& device,
                                   const RegionRef& region) {
  const MutexLock one(taking_);
  const Key key{region.get(), device.get(), peer};
  {
    const MutexLock lock(mutex_);
    const auto found = to_share_.find(key);
    if (found != to_share_.end()) {
      Entry& entry = entries_.at(found->second);
      ++entry.uses;
      const MemoryRegion& known = entry.memory.region;
      return Lease{found->second, known.rkey(), known.base(), entry.memory.how};
    }
  }
  ONECOPY_ASSIGN_OR_RETURN(DeviceMemory memory,
                           RegisterWith(device, *region, IBV_ACCESS_REMOTE_READ));
  Lease lease{0, memory.region.rkey(), memory.region.base(), memory.how};
  {
    const MutexLock lock(mutex_);
    lease.id = next_id_++;
    to_share_[key] = lease.id;
    entries_[lease.id] = Entry{key, std::move(memory), 1, false, {}};
  }
  region->OnRelease([weak = weak_from_this(), raw = region.get()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->Drop([raw](const Entry& entry) { return std::get<0>(entry.key) == raw; });
  });
  return lease;
}

void Leases::GiveBack(uint64_t id) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end() || --found->second.uses > 0) return;
  found->second.idle_since = os::Clock::now();
}

void Leases::Retire(const Region* region) {
  Drop([&](Entry& entry) {
    if (entry.retired || std::get<0>(entry.key) != region) return false;
    if (entry.uses == 0) return true;
    entry.retired = true;
    mutex_.AssertHeld();  // by Drop
    to_share_.erase(entry.key);
    return false;
  });
}

std::optional<os::Clock::time_point> Leases::DropIdle() {
  std::optional<os::Clock::time_point> next;
  const os::Clock::time_point now = os::Clock::now();
  Drop([&](const Entry& entry) {
    if (entry.uses > 0) return false;
    const os::Clock::time_point end = entry.idle_since + idle_;
    if (entry.retired || end <= now) return true;
    next = next ? std::min(*next, end) : end;
    return false;
  });
  return next;
}

void Leases::DropPeer(const std::string& peer) {
  Drop([&](const Entry& entry) { return entry.uses == 0 && std::get<2>(entry.key) == peer; });
}

}  // namespace onecopy::verbs
