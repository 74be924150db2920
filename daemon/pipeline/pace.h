// How fast a chain may take bytes from its source.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "transport/core/base/executor.h"

namespace onecopy::pipeline {

// Any thread.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~Pace() = default;

  // When the next `bytes` may begin to move: not after now, or soon. They are spent then, whether
  // they move or not, and what asks later waits behind them. Nothing: others have what there is for
  // the time being; nothing is spent, and the chain asks again.
  virtual std::optional<Clock::time_point> Spend(uint64_t bytes) = 0;
  // Runs `task` then, on a thread that must not block; never if that thread has ended.
  virtual void At(Clock::time_point when, Task task) = 0;
  // How large a piece should be at most, so that pieces of several move evenly.
  virtual uint64_t piece_bytes() const = 0;
};

}  // namespace onecopy::pipeline
