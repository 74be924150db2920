// By when the calls of a thread end.
#pragma once

#include <chrono>
#include <optional>

namespace onecopy::client {

// What the end of an object may take where a daemon does not answer.
inline constexpr std::chrono::milliseconds kTeardown{5000};

// While it lives, whatever its thread asks the daemon for ends by then, at whatever depth: what a
// caller gives a deadline may be made of many calls. Of several the earliest counts. Each call ends
// earlier where its own patience says so.
class CallLimit {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = std::optional<Clock::time_point>;

  explicit CallLimit(Time until);
  ~CallLimit();
  CallLimit(const CallLimit&) = delete;
  CallLimit& operator=(const CallLimit&) = delete;

  // When the client gives up a call with this deadline: 2.5 s after it. The daemon ends a transfer
  // at its deadline, but may learn only 1.5 s later that another node does not answer.
  static Time For(std::optional<std::chrono::milliseconds> deadline);
  // Of the calling thread; absent: none.
  static Time Current();
  // How much is left of it, at least 0.
  static std::optional<std::chrono::milliseconds> Left();

 protected:
  struct Instead {};
  CallLimit(Clock::time_point until, Instead);

 private:
  const Time before_;
};

// The same for what undoes something as its object ends, which also happens after a deadline: at
// most kTeardown, and at most a second after a limit that holds already.
class TeardownLimit : public CallLimit {
 public:
  // `hopeless`: the one before was not answered; the request is sent, and not waited for.
  explicit TeardownLimit(bool hopeless);
};

}  // namespace onecopy::client
