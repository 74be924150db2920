// The handles that this engine gives NIXL's core, one for each descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>

#include "client/nixl/abi.h"
#include "client/nixl/memories.h"
#include "client/nixl/order.h"
#include "onecopy/result.h"
#include "transport/core/base/mutex.h"

namespace onecopy::nixl::abi {

// Of a descriptor that was registered here, or loaded from another agent. Constant.
class Metadata {
 public:
  std::shared_ptr<const Place> place;
  uintptr_t address = 0;                 // where the descriptor begins
  std::shared_ptr<const Memory> memory;  // of this agent's, unless it has no bytes; else null
};

}  // namespace onecopy::nixl::abi

namespace onecopy::nixl {

// All handles. A handle ends with its last user. Equal descriptors share one
// handle, which counts them: NIXL's core finds a descriptor's handle by the descriptor's bytes, so
// where two are equal it gives one handle back twice and the other never. A pointer that is not a
// handle is ignored when it is given back. Thread-safe.
class Handles {
 public:
  // A descriptor of this agent's: `make`, called under the lock, says of what memory it is, where
  // no equal one is registered.
  using Make = std::function<Result<std::shared_ptr<const Memory>>()>;
  Result<abi::Metadata*> Register(const abi::Descriptor& descriptor, abi::Segment segment,
                                  const Make& make);
  // One less. The memory, where it was the last of the handle's; null otherwise.
  std::shared_ptr<const Memory> Deregister(abi::Metadata* handle);

  // What an agent loads: of its own, the same handle once more, null where there is none.
  abi::Metadata* LoadLocal(abi::Metadata* handle);
  abi::Metadata* LoadRemote(std::shared_ptr<const Place> place, uintptr_t address);
  void Unload(abi::Metadata* handle);

 private:
  using Key = std::tuple<abi::Segment, uint64_t, uintptr_t, size_t>;
  struct Entry {
    std::unique_ptr<abi::Metadata> handle;
    uint64_t registered = 0;
    uint64_t loaded = 0;
    Key key = {};
  };
  using Entries = std::unordered_map<const abi::Metadata*, Entry>;

  Entry& Add(abi::Metadata handle) ONECOPY_REQUIRES(mutex_);
  void DropUnused(Entries::iterator at) ONECOPY_REQUIRES(mutex_);

  Mutex mutex_;
  Entries entries_ ONECOPY_GUARDED_BY(mutex_);
  std::map<Key, abi::Metadata*> registered_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::nixl
