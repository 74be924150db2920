// How fast a chain may take bytes from its source.
#pragma once

#include <chrono>
#include <cstdint>

#include "transport/core/executor.h"

namespace onecopy::pipeline {

// Any thread.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~Pace() = default;

  // When the next `bytes` may begin to move: not after now, or a time to come. They are spent then,
  // whether they move or not; what asks later waits behind them.
  virtual Clock::time_point Spend(uint64_t bytes) = 0;
  // That these bytes do not move after all.
  virtual void Refund(uint64_t bytes) = 0;
  // Grows whenever a limit changes: times that were given before mean nothing any more.
  virtual uint64_t changes() const = 0;
  // Runs `task` then, on a thread that must not block; never if that thread has ended.
  virtual void At(Clock::time_point when, Task task) = 0;
  // How large a piece should be at most, so that pieces of several move evenly.
  virtual uint64_t piece_bytes() const = 0;
};

}  // namespace onecopy::pipeline
