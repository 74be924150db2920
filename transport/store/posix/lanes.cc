#include "transport/store/posix/lanes.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "onecopy/reasons.h"

namespace onecopy::posix {
namespace {

// Lanes with something under way that may never end, for good.
std::deque<std::shared_ptr<Lane>>& Abandoned() {
  static auto* const lanes = new std::deque<std::shared_ptr<Lane>>;
  return *lanes;
}

bool IsNear(const Lanes::Key& key) { return key.numa_node >= 0; }

}  // namespace

size_t Lanes::Count(bool near) const {
  return static_cast<size_t>(std::count_if(lanes_.begin(), lanes_.end(), [near](const auto& entry) {
    return IsNear(entry.first) == near;
  }));
}

Result<std::shared_ptr<Lane>> Lanes::For(const Key& key, const std::string& cpus) {
  std::vector<std::shared_ptr<Lane>> idle;  // which end without the lock: their files may be slow
  const MutexLock lock(mutex_);
  if (closed_) {
    return Status(Code::kUnavailable, reasons::kDraining, "the daemon is ending");
  }
  const auto found = lanes_.find(key);
  if (found != lanes_.end()) return found->second;
  const bool near = IsNear(key);
  // A lane without another holder has nothing under way, and gets work only from here. A caller
  // that asks for a near one acts for a user, which must not end what others' lanes still have to
  // do.
  const bool full = Count(false) >= kMost;
  const bool near_full = Count(true) >= kMost;
  if (!near && (full || near_full)) {
    std::erase_if(lanes_, [&](auto& entry) {
      const bool enough = IsNear(entry.first) ? near_full : full;
      if (!enough || entry.second.use_count() != 1) return false;
      idle.push_back(std::move(entry.second));
      return true;
    });
  }
  if (Count(near) >= kMost) {
    return Status(Code::kResourceExhausted, reasons::kQuota,
                  std::to_string(kMost) + " users have files open, which is the limit",
                  "try again later");
  }
  const auto of_owner = std::count_if(lanes_.begin(), lanes_.end(), [&](const auto& entry) {
    const Key& other = entry.first;
    return other.owner == key.owner && other.numa_node == key.numa_node &&
           other.name.empty() == key.name.empty();
  });
  if (key.name.empty() && of_owner >= static_cast<std::ptrdiff_t>(kMostEach)) {
    return Status(Code::kResourceExhausted, reasons::kQuota,
                  "uid " + key.owner.ToString() + " has files open with " +
                      std::to_string(kMostEach) + " groups, which is the limit",
                  "end some of these transfers");
  }
  ONECOPY_ASSIGN_OR_RETURN(std::shared_ptr<Lane> lane,
                           Lane::Make(key.owner, key.gid, ring_, held_, cpus));
  return lanes_[key] = std::move(lane);
}

void Lanes::Close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  for (auto& [key, lane] : lanes_) {
    lane->Settle();  // what has just ended may hold it still
    if (lane.use_count() == 1) continue;
    lane->loop().Stop();  // ends from now on are not reported
    Abandoned().push_back(lane);
  }
  lanes_.clear();
}

}  // namespace onecopy::posix
