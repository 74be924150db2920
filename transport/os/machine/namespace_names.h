// What clients' namespaces are called: the part of an owner's name that keeps a container's uid 0
// apart from the host's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "transport/core/base/mutex.h"
#include "transport/os/machine/namespaces.h"

namespace onecopy::os {

// Any thread: all of a daemon's doors have one, so that a client has one name at each.
class NamespaceNames {
 public:
  struct Name {
    std::string text;                  // empty: the daemon's own; see Uid::namespaces
    std::shared_ptr<const void> held;  // to be kept while a client is known by the name
    bool alone = false;                // it is this process's only: nothing tells it apart
  };

  // Processes of the same namespaces have one name, and a name is never given to others, though the
  // kernel uses its numbers again: a container gone whose name has been forgotten since comes back
  // as another. Where neither the kernel shows the numbers nor the client (WithShown), each is
  // alone: a control group does not identify a container, and several can share one.
  Name Of(const ProcessNamespaces& seen);

 private:
  // The numbers of the user and PID namespaces, 0 for the daemon's own.
  using Key = std::pair<uint64_t, uint64_t>;
  struct Held {
    std::shared_ptr<const void> descriptors;
    std::string text;
    uint64_t last_named = 0;  // counts up
  };

  Name Numbered(const ProcessNamespaces& seen) ONECOPY_REQUIRES(mutex_);
  // Forgets the longest unused name of those that no client is known by, where there are too many.
  void MakeRoom() ONECOPY_REQUIRES(mutex_);

  Mutex mutex_;
  std::map<Key, Held> held_ ONECOPY_GUARDED_BY(mutex_);
  std::map<Key, uint32_t> times_
      ONECOPY_GUARDED_BY(mutex_);  // that these numbers were given a name
  uint64_t named_ ONECOPY_GUARDED_BY(mutex_) = 0;
  uint64_t alone_ ONECOPY_GUARDED_BY(mutex_) = 0;
};

}  // namespace onecopy::os
