// The result of a mover of many small pieces, for one piece.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "bench/measure/mover.h"
#include "bench/measure/statistics.h"

namespace onecopy::bench {

// How many pieces a sample moves, and how many of them are under way at a time. The pieces take
// turns on `slots()` places in memory.
struct Many {
  uint64_t piece_bytes = 4096;
  unsigned depth = 1;
  unsigned count = 2000;

  unsigned slots() const { return depth > 1 ? depth : 16; }
  uint64_t bytes() const { return piece_bytes * slots(); }
  uint64_t OffsetOf(unsigned piece) const { return piece % slots() * piece_bytes; }
};

// One after the other: the time of one is the median, which a pause of the machine does not change.
template <typename MoveOne>
Result<Moved> OneByOne(const Many& many, const MoveOne& move_one) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  seconds.reserve(many.count);
  for (unsigned i = 0; i < many.count; ++i) {
    const Clock::time_point begin = Clock::now();
    ONECOPY_RETURN_IF_ERROR(move_one(many.OffsetOf(i)));
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return Moved{.seconds = Summarise(std::move(seconds)).median};
}

// Many under way: the time of one is its share of the whole.
template <typename MoveAll>
Result<Moved> AllAtOnce(const Many& many, const MoveAll& move_all) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  ONECOPY_RETURN_IF_ERROR(move_all());
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return Moved{.seconds = seconds / many.count};
}

}  // namespace onecopy::bench
