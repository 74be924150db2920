// Which ports of this node a peer's ports have not reached.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "transport/core/base/mutex.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::verbs {

// Two fabrics may look alike: with the default subnet prefix, or with Ethernet rails that are not
// joined. Only a message shows whether two ports reach each other, so the owner of memory, which
// pairs them, remembers the pairs that it has tried and that did not come up. Any thread.
class Pairings {
 public:
  void Try(const std::string& peer, const std::string& theirs, const std::string& mine);
  void CameUp(const std::string& peer, const std::string& theirs, const std::string& mine);
  // Whether that pair was tried long enough ago to have come up by now, and has not.
  bool Failed(const std::string& peer, const std::string& theirs, const std::string& mine) const;
  // That port of the peer's is paired as if nothing were known: all pairs have failed.
  void Forget(const std::string& peer, const std::string& theirs);

 private:
  using Pair = std::tuple<std::string, std::string, std::string>;

  mutable Mutex mutex_;
  std::map<Pair, os::Clock::time_point> tried_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::verbs
