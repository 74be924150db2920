#include "bench/ceiling/together.h"

#include <time.h>

#include <chrono>
#include <latch>
#include <thread>

namespace onecopy::bench {

double SecondsTogether(const std::vector<std::function<void()>>& jobs) {
  using Clock = std::chrono::steady_clock;
  std::latch ready(static_cast<std::ptrdiff_t>(jobs.size()));
  std::latch go(1);
  std::vector<std::jthread> threads;
  for (const std::function<void()>& job : jobs) {
    threads.emplace_back([&ready, &go, &job] {
      ready.count_down();
      go.wait();
      job();
    });
  }
  ready.wait();
  const Clock::time_point begin = Clock::now();
  go.count_down();
  for (std::jthread& thread : threads) thread.join();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double ProcessCpuSeconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

Stripe StripeOf(uint64_t bytes, unsigned pieces, unsigned index) {
  const uint64_t least = bytes / pieces;
  const uint64_t longer = bytes % pieces;  // so many are one byte longer
  const auto begin_of = [&](uint64_t i) { return i * least + (i < longer ? i : longer); };
  return {begin_of(index), begin_of(uint64_t{index} + 1)};
}

}  // namespace onecopy::bench
