// How long a blocking copy may go on: until a stop is requested or a deadline passes.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::client {

// Used by one thread, except for Remaining, Check and stop; the stop may be requested by any.
class Waiter {
 public:
  using Clock = std::chrono::steady_clock;

  // The time runs from now on.
  static Result<std::unique_ptr<Waiter>> Make(std::stop_token stop,
                                              std::optional<std::chrono::milliseconds> limit);

  const std::stop_token& stop() const { return stop_; }
  // Time that is left, at least 0; absent without a deadline.
  std::optional<std::chrono::milliseconds> Remaining() const;

  // CANCELLED once a stop is requested, DEADLINE_EXCEEDED (DEADLINE) after the deadline.
  Status Check() const;

  // Waits until `fd` has one of the poll(2) `events`, or an error or hang-up; fails like Check.
  Status Wait(int fd, short events) const;

 private:
  struct Wake {
    int fd;
    void operator()() const;
  };

  Waiter(std::stop_token stop, std::optional<std::chrono::milliseconds> limit, os::UniqueFd wake);

  const std::stop_token stop_;
  const std::optional<std::chrono::milliseconds> limit_;
  const std::optional<Clock::time_point> deadline_;
  const os::UniqueFd wake_;  // an eventfd, readable once a stop is requested
  const std::stop_callback<Wake> on_stop_;
};

}  // namespace onecopy::client
