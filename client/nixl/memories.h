// The memory that an agent has registered.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/nixl/abi.h"
#include "client/nixl/order.h"
#include "onecopy/client.h"
#include "transport/core/base/mutex.h"

namespace onecopy::nixl {

// One registration: a buffer of the daemon's, under a name that no other has or had.
struct Memory {
  abi::Segment segment;
  uint64_t bytes = 0;
  Place place;       // of this node
  bool own = false;  // copied by this process's library alone
};

// Descriptors that lie inside memory which is registered share its registration, and GPU memory is
// registered by whole allocations; a registration ends with its last descriptor. Thread-safe.
class Memories {
 public:
  // Owners that may read and write registered memory.
  explicit Memories(std::vector<std::string> grant_to);

  // As Client::RegisterMemory and RegisterCuda, of at least one byte.
  Result<std::shared_ptr<const Memory>> Register(Client& client, abi::Segment segment,
                                                 uintptr_t address, uint64_t bytes);
  // A descriptor less. Whether it was the last, so that the buffer is to be removed.
  bool Leave(const std::shared_ptr<const Memory>& memory);

  // Registers again, under the same names, what the client lost with its last session.
  Status Restore(Client& client);

 private:
  struct Entry {
    std::shared_ptr<const Memory> memory;
    uint64_t users = 0;
  };
  using Key = std::pair<abi::Segment, uintptr_t>;

  // Registers it: whether it is this process's own.
  Result<bool> Make(Client& client, const Memory& memory) const;

  const std::vector<std::string> grant_to_;
  const std::string prefix_;  // of all names
  Mutex mutex_;
  uint64_t next_ ONECOPY_GUARDED_BY(mutex_) = 0;
  std::multimap<Key, Entry> entries_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::nixl
