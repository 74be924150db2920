// Takes connections from a listening socket on an event loop.
#pragma once

#include <cstdint>
#include <functional>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::os {

// What an acceptor does where descriptors run short.
struct Shortage {
  // Descriptors that are kept for connections that exist already: a new one that would leave fewer
  // free is refused. Of the limit on open files, at most a quarter is kept.
  uint64_t keep = 0;
  // May tell one that is not taken why (RESOURCE_EXHAUSTED), and closes it.
  std::function<void(UniqueFd, const Status& why)> turned_away = {};
};

// Loop's thread only, or after the loop has ended. Where descriptors run short, what connects is
// accepted, told so, and closed. Where not even that can be done, the acceptor waits a little
// before it tries again instead of spinning on the connections that wait.
class Acceptor {
 public:
  // `connected` gets each connection, non-blocking and close-on-exec; `failed` hears about a
  // shortage that keeps connections from being taken, once until one is taken again. `loop` must
  // outlive the acceptor.
  Acceptor(EventLoop& loop, UniqueFd listener, std::function<void(UniqueFd)> connected,
           std::function<void(const Status&)> failed, Shortage shortage = {});
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  Status Start();

  int fd() const { return listener_.get(); }

 private:
  void Accept();
  void Pause();
  void Take(UniqueFd fd);
  void TurnAway(UniqueFd fd);
  // With the descriptor that is kept for it. 0, or the error number of what was wrong.
  int TurnAwayBySpare();
  void Report(const Status& shortage);

  EventLoop& loop_;
  UniqueFd listener_;
  std::function<void(UniqueFd)> connected_;
  std::function<void(const Status&)> failed_;
  Shortage shortage_;
  UniqueFd spare_;
  EventLoop::TimerId resume_ = 0;
  bool failing_ = false;
};

}  // namespace onecopy::os
