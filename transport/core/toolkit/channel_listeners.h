// The listeners of a connection's channels.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>

#include "transport/core/base/mutex.h"
#include "transport/core/contracts/link.h"

namespace onecopy {

// Any thread: a listener that then asks the peer to speak must not miss a message.
class ChannelListeners {
 public:
  using Handler = Connection::MessageHandler;

  void Listen(ChannelId channel, Handler handler) {
    auto shared = std::make_shared<Handler>(std::move(handler));
    const MutexLock lock(mutex_);
    handlers_[channel].swap(shared);
  }

  void Ignore(ChannelId channel) {
    std::shared_ptr<Handler> ended;  // destroyed outside the lock, or by the call under way
    const MutexLock lock(mutex_);
    const auto found = handlers_.find(channel);
    if (found == handlers_.end()) return;
    ended = std::move(found->second);
    handlers_.erase(found);
  }

  // Calls the channel's handler, which may end its own listening; drops messages without a
  // listener.
  void Deliver(ChannelId channel, std::span<const std::byte> message) {
    std::shared_ptr<Handler> handler;
    {
      const MutexLock lock(mutex_);
      const auto found = handlers_.find(channel);
      if (found == handlers_.end()) return;
      handler = found->second;
    }
    (*handler)(message);
  }

  void Clear() {
    std::unordered_map<ChannelId, std::shared_ptr<Handler>> ended;  // destroyed outside the lock
    const MutexLock lock(mutex_);
    handlers_.swap(ended);
  }

 private:
  Mutex mutex_;
  std::unordered_map<ChannelId, std::shared_ptr<Handler>> handlers_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy
