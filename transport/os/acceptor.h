// Takes connections from a listening socket on an event loop.
#pragma once

#include <functional>

#include "transport/core/result.h"
#include "transport/os/event_loop.h"
#include "transport/os/unique_fd.h"

namespace onecopy::os {

// Loop's thread only, or after the loop has ended. When the process has no descriptor left, it
// waits a little before it tries again instead of spinning on the connections that wait.
class Acceptor {
 public:
  // `connected` gets each connection, non-blocking and close-on-exec; `failed` hears about a
  // shortage that keeps connections from being accepted, once until one is accepted again. `loop`
  // must outlive the acceptor.
  Acceptor(EventLoop& loop, UniqueFd listener, std::function<void(UniqueFd)> connected,
           std::function<void(const Status&)> failed);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  Status Start();

  int fd() const { return listener_.get(); }

 private:
  void Accept();
  void Pause();

  EventLoop& loop_;
  UniqueFd listener_;
  std::function<void(UniqueFd)> connected_;
  std::function<void(const Status&)> failed_;
  EventLoop::TimerId resume_ = 0;
  bool failing_ = false;
};

}  // namespace onecopy::os
