// The thread of a connection, as the parts of that connection use it.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "transport/core/base/executor.h"

namespace onecopy {

// `Loop` is an event loop with timers. Everything on its thread.
template <typename Loop>
class ConnectionHome {
 public:
  // `keep` gives a reference to the connection.
  ConnectionHome(Loop& loop, std::function<std::shared_ptr<void>()> keep)
      : loop_(loop), keep_(std::move(keep)) {}

  Loop& loop() const { return loop_; }
  // To be held while something of the part's is under way elsewhere. Not inside the connection's
  // constructor.
  std::shared_ptr<void> Keep() const { return keep_(); }
  // Runs the task unless the connection has gone by then. Answers the loop's name for the timer.
  template <typename Delay>
  auto RunAfter(Delay delay, Task task) const {
    return loop_.RunAfter(delay,
                          [weak = std::weak_ptr<void>(keep_()), task = std::move(task)]() mutable {
                            if (const auto keep = weak.lock()) task();
                          });
  }

 private:
  Loop& loop_;
  const std::function<std::shared_ptr<void>()> keep_;
};

}  // namespace onecopy
