#include "transport/link/verbs/leases.h"

#include <algorithm>
#include <vector>

namespace onecopy::verbs {

Result<Leases::Lease> Leases::Take(const std::string& peer, const std::shared_ptr<Device>& device,
                                   const RegionRef& region) {
  const std::lock_guard one(taking_);
  const Key key{region.get(), device.get(), peer};
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end()) {
      ++found->second.uses;
      const MemoryRegion& known = found->second.memory.region;
      return Lease{known.rkey(), known.base(), found->second.memory.how};
    }
  }
  ONECOPY_ASSIGN_OR_RETURN(DeviceMemory memory,
                           RegisterWith(device, *region, IBV_ACCESS_REMOTE_READ));
  const Lease lease{memory.region.rkey(), memory.region.base(), memory.how};
  {
    const std::lock_guard lock(mutex_);
    entries_[key] = Entry{std::move(memory), 1, {}};
  }
  region->OnRelease([weak = weak_from_this(), raw = region.get()] {
    if (const auto self = weak.lock()) self->Forget(raw);
  });
  return lease;
}

void Leases::GiveBack(const std::string& peer, const Device* device, const Region* region) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find({region, device, peer});
  if (found == entries_.end() || --found->second.uses > 0) return;
  found->second.idle_since = os::Clock::now();
}

std::optional<os::Clock::time_point> Leases::DropIdle() {
  std::vector<Entry> dropped;  // deregistered outside the lock
  std::optional<os::Clock::time_point> next;
  const std::lock_guard lock(mutex_);
  const os::Clock::time_point now = os::Clock::now();
  for (auto it = entries_.begin(); it != entries_.end();) {
    const os::Clock::time_point end = it->second.idle_since + idle_;
    if (it->second.uses == 0 && end <= now) {
      dropped.push_back(std::move(it->second));
      it = entries_.erase(it);
      continue;
    }
    if (it->second.uses == 0) next = next ? std::min(*next, end) : end;
    ++it;
  }
  return next;
}

void Leases::DropPeer(const std::string& peer) {
  std::vector<Entry> dropped;
  const std::lock_guard lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (std::get<2>(it->first) == peer && it->second.uses == 0) {
      dropped.push_back(std::move(it->second));
      it = entries_.erase(it);
    } else {
      ++it;
    }
  }
}

void Leases::Forget(const Region* region) {
  std::vector<Entry> dropped;
  const std::lock_guard lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (std::get<0>(it->first) == region) {
      dropped.push_back(std::move(it->second));
      it = entries_.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace onecopy::verbs
