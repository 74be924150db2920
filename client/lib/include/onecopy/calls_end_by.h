// By when all calls of a thread end.
#pragma once

#include "onecopy/language.h"  // first

#include <chrono>
#include <memory>
#include <optional>

namespace onecopy {

namespace client {
class CallLimit;
}  // namespace client

// While it lives, every call to a daemon that its thread makes, by any Client, ends by that time:
// with DEADLINE_EXCEEDED (DEADLINE) where the daemon has not answered, which may then still carry
// it out. So one deadline holds for an operation of many calls. Of several that live, and of a
// call's own limits, the earliest counts. Destructors may take 1 s more.
class CallsEndBy {
 public:
  using Clock = std::chrono::steady_clock;

  // Absent: no limit.
  explicit CallsEndBy(std::optional<Clock::time_point> until);
  ~CallsEndBy();
  CallsEndBy(const CallsEndBy&) = delete;
  CallsEndBy& operator=(const CallsEndBy&) = delete;

 private:
  const std::unique_ptr<client::CallLimit> limit_;
};

}  // namespace onecopy
