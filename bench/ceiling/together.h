// Threads that do one thing together, timed.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace onecopy::bench {

// Runs each job on a thread of its own, all of them from one moment on: seconds from then to the
// end of the last one.
double SecondsTogether(const std::vector<std::function<void()>>& jobs);

// CPU time of this process so far: all of its threads, those that ended included.
double ProcessCpuSeconds();

// [begin, end) of piece `index` when `bytes` are cut into `pieces` of nearly the same length.
struct Stripe {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t bytes() const { return end - begin; }
};
Stripe StripeOf(uint64_t bytes, unsigned pieces, unsigned index);

}  // namespace onecopy::bench
