// Assigns lanes to users.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "transport/core/base/mutex.h"
#include "transport/core/base/uid.h"
#include "transport/store/posix/held_memory.h"
#include "transport/store/posix/lane.h"

namespace onecopy::posix {

// Any thread. A lane for each user, in which files are opened; and where the machine has several
// NUMA nodes one more for each node near to which that user's files are, which moves their bytes.
class Lanes {
 public:
  // Of each of these two kinds.
  static constexpr size_t kMost = 256;
  // Of one user, whatever its groups are.
  static constexpr size_t kMostEach = 16;

  struct Key {
    Uid owner;
    uint32_t gid = 0;
    std::string name;        // OpenFileRequest::lane
    int32_t numa_node = -1;  // -1: where files are opened

    friend auto operator<=>(const Key&, const Key&) = default;
  };

  // `held`: what their rings register.
  Lanes(bool ring, std::shared_ptr<HeldMemory> held) : ring_(ring), held_(std::move(held)) {}

  // `cpus`: where the threads of a new one run; empty: anywhere. RESOURCE_EXHAUSTED, and
  // UNAVAILABLE (DRAINING) once it is closed. May wait for a thread to begin or end.
  Result<std::shared_ptr<Lane>> For(const Key& key, const std::string& cpus);

  // Once. Lanes with something under way that may never end are kept for good.
  void Close();

 private:
  // How many there are of that kind.
  size_t Count(bool near) const ONECOPY_REQUIRES(mutex_);

  const bool ring_;
  const std::shared_ptr<HeldMemory> held_;
  mutable Mutex mutex_;
  bool closed_ ONECOPY_GUARDED_BY(mutex_) = false;
  std::map<Key, std::shared_ptr<Lane>> lanes_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::posix
