// The connections of a link that have not ended, and the end of all of them.
#pragma once

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "onecopy/reasons.h"
#include "transport/core/base/mutex.h"
#include "transport/core/contracts/link.h"

namespace onecopy {

// Holds each connection until it has closed, so that what it owns ends on its own thread, and none
// is forgotten at the end. Any thread. Outlives the connections' threads.
template <typename LinksConnection>
class OpenConnections {
 public:
  using Ref = std::shared_ptr<LinksConnection>;

  // `link`: its name, a literal.
  explicit OpenConnections(const char* link) : link_(link) {}

  // UNAVAILABLE (DRAINING) once the link is shut down: the connection is not held, and must not be
  // used.
  Status Add(const Ref& connection) {
    {
      const MutexLock lock(mutex_);
      if (shut_) {
        return {Code::kUnavailable, reasons::kDraining,
                std::string("the ") + link_ + " link is shut down"};
      }
      open_.push_back(connection);
    }
    connection->OnClosed([this, raw = connection.get()](const Status&) { Remove(raw); });
    return OkStatus();
  }

  std::vector<Ref> All() const {
    const MutexLock lock(mutex_);
    return open_;
  }

  // Takes no more, closes those that are open and waits until they have closed, so that no get is
  // left without its completion. On no connection's thread. False where that has been asked before.
  bool Shutdown() {
    {
      const MutexLock lock(mutex_);
      if (std::exchange(shut_, true)) return false;
    }
    const std::vector<Ref> open = All();
    for (const Ref& connection : open) {
      connection->Close({Code::kUnavailable, reasons::kDraining, "this node is shutting down"});
    }
    for (const Ref& connection : open) {
      std::promise<void> closed;
      connection->OnClosed([&](const Status&) { closed.set_value(); });
      closed.get_future().wait();
    }
    return true;
  }

 private:
  void Remove(const LinksConnection* connection) {
    Ref last;  // destroyed outside the lock
    const MutexLock lock(mutex_);
    const auto found = std::find_if(open_.begin(), open_.end(),
                                    [&](const Ref& one) { return one.get() == connection; });
    if (found == open_.end()) return;
    last = std::move(*found);
    open_.erase(found);
  }

  const char* const link_;
  mutable Mutex mutex_;
  std::vector<Ref> open_ ONECOPY_GUARDED_BY(mutex_);
  bool shut_ ONECOPY_GUARDED_BY(mutex_) = false;
};

}  // namespace onecopy
