// Read-only registrations for one peer, of memory that cannot have windows.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "onecopy/result.h"
#include "transport/core/base/mutex.h"
#include "transport/link/verbs/memory_region.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::verbs {

// A peer that has been lent a region keeps the right to read it until nothing is exported to it any
// more and `idle` has passed, or the region ends, or somebody's right to it does (Retire):
// registering again for each transfer would cost more than many transfers. Any thread.
class Leases : public std::enable_shared_from_this<Leases> {
 public:
  explicit Leases(os::Clock::duration idle) : idle_(idle) {}

  struct Lease {
    uint64_t id = 0;  // for GiveBack
    uint32_t rkey = 0;
    uint64_t base = 0;  // what the device calls the region's first byte
    std::string how;    // "dma-buf", "peermem", "host"
  };
  // One more export. Blocks.
  Result<Lease> Take(const std::string& peer, const std::shared_ptr<Device>& device,
                     const RegionRef& region);
  // One export less. What then has to end does so with the next DropIdle.
  void GiveBack(uint64_t id);
  // No more exports share those of this region: they end now, or when the last one that has them
  // gives back. Blocks.
  void Retire(const Region* region);
  // Ends those that are retired or have been idle for long enough; when to look again, if ever.
  // Blocks.
  std::optional<os::Clock::time_point> DropIdle();
  // Ends all of this peer's that are not in use.
  void DropPeer(const std::string& peer);

 private:
  using Key = std::tuple<const Region*, const Device*, std::string>;
  struct Entry {
    Key key;
    DeviceMemory memory;
    size_t uses = 0;
    bool retired = false;
    os::Clock::time_point idle_since;
  };
  using Entries = std::map<uint64_t, Entry>;
  // Ends those that `ended` picks. Blocks.
  template <typename Ended>
  void Drop(Ended ended);

  const os::Clock::duration idle_;
  Mutex taking_;  // one at a time
  Mutex mutex_;
  uint64_t next_id_ ONECOPY_GUARDED_BY(mutex_) = 1;
  Entries entries_ ONECOPY_GUARDED_BY(mutex_);                   // by id
  std::map<Key, uint64_t> to_share_ ONECOPY_GUARDED_BY(mutex_);  // those that are not retired
};

}  // namespace onecopy::verbs
