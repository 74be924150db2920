// What clients' namespaces are called: the part of an owner's name that keeps a container's uid 0
// apart from the host's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "transport/os/namespaces.h"

namespace onecopy::attach {

// Thread `attach` only.
class NamespaceNames {
 public:
  struct Name {
    std::string text;                  // empty: the daemon's own; see Uid::namespaces
    std::shared_ptr<const void> held;  // to be kept while a client is known by the name
  };

  // Processes of the same namespaces have one name, and a name is never given to others, though the
  // kernel uses its numbers again: a container gone whose name has been forgotten since comes back
  // as another. Where the kernel shows no numbers, processes of one control group count as one;
  // where it shows that neither, each is alone.
  Name Of(const os::ProcessNamespaces& seen);

 private:
  // The numbers of the user and PID namespaces, 0 for the daemon's own.
  using Key = std::pair<uint64_t, uint64_t>;
  struct Held {
    std::shared_ptr<const void> descriptors;
    std::string text;
    uint64_t last_named = 0;  // counts up
  };

  Name Numbered(const os::ProcessNamespaces& seen);
  // Forgets the longest unused name of those that no client is known by, where there are too many.
  void MakeRoom();

  std::map<Key, Held> held_;
  std::map<Key, uint32_t> times_;  // that these numbers were given a name
  uint64_t named_ = 0;
  uint64_t alone_ = 0;
};

}  // namespace onecopy::attach
