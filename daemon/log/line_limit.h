// A limit on lines of one kind.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

namespace onecopy::log {

// For what may happen far more often than anybody reads: so many lines in each second are written,
// the others are counted. One thread.
class LineLimit {
 public:
  using Clock = std::chrono::steady_clock;

  explicit LineLimit(uint64_t per_second) : per_second_(per_second) {}

  // Whether one more may be written now.
  bool Take(Clock::time_point now = Clock::now()) {
    if (now - second_ >= std::chrono::seconds(1)) {
      second_ = now;
      written_ = 0;
    }
    const bool may = written_ < per_second_;
    ++(may ? written_ : left_out_);
    return may;
  }
  // How many were refused since this was asked last.
  uint64_t TakeLeftOut() { return std::exchange(left_out_, 0); }

 private:
  const uint64_t per_second_;
  Clock::time_point second_{};  // when the current one began
  uint64_t written_ = 0;        // in it
  uint64_t left_out_ = 0;
};

}  // namespace onecopy::log
