// How far a move is, on a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <ostream>
#include <string>

namespace onecopy::cli {

// The rate of the last few seconds.
class RateMeter {
 public:
  using Clock = std::chrono::steady_clock;

  // Times and byte counts must not go back.
  void Add(Clock::time_point now, uint64_t bytes_done);

  double bytes_per_second() const;  // 0 until two samples of different times are there
  // At that rate; absent while nothing moves.
  std::optional<double> SecondsLeft(uint64_t bytes_total) const;

 private:
  struct Sample {
    Clock::time_point when;
    uint64_t bytes;
  };
  std::deque<Sample> samples_;
};

// One line of at most `width` characters: bar, share, bytes, rate, time left; without a total,
// bytes and rate.
std::string ProgressLine(uint64_t bytes_done, std::optional<uint64_t> bytes_total,
                         const RateMeter& rate, size_t width);

// Redraws one line in place, about ten times a second. Used by one thread.
class ProgressBar {
 public:
  // `shown` false: draws nothing.
  ProgressBar(std::ostream& terminal, bool shown) : terminal_(terminal), shown_(shown) {}
  ~ProgressBar() { Clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Update(uint64_t bytes_done, std::optional<uint64_t> bytes_total);
  // Leaves the line empty, for what is printed next.
  void Clear();

 private:
  std::ostream& terminal_;
  const bool shown_;
  bool drawn_ = false;
  RateMeter rate_;
  RateMeter::Clock::time_point drawn_at_{};
};

// Whether what is drawn there is seen: standard error is a terminal that can move its cursor.
bool StderrIsTerminal();

// Columns of the terminal on standard error; 80 where that is unknown.
size_t TerminalWidth();
// Columns of the terminal on standard output; absent where it is none.
std::optional<size_t> OutputWidth();
// Lines of the terminal on standard output; 24 where that is unknown.
size_t TerminalHeight();

}  // namespace onecopy::cli
