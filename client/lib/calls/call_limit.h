// By when the calls of a thread end.
#pragma once

#include <chrono>
#include <optional>

namespace onecopy::client {

// How long a destructor may wait for a daemon that does not answer.
inline constexpr std::chrono::milliseconds kTeardown{5000};

// While it lives, every call to the daemon that its thread makes ends by that time: one operation
// with a deadline may make many calls. If several limits are alive, the earliest counts. A call
// whose own limit is shorter ends earlier.
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
  static bool HasPassed() { return Current() && *Current() <= Clock::now(); }

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
