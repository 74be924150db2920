#include "transport/core/base/task_queue.h"

#include <algorithm>
#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

using onecopy::TaskQueue;

TEST_CASE("a sleeping consumer is woken once per nap") {
  TaskQueue queue;
  int ran = 0;
  CHECK_FALSE(queue.Push([&] { ++ran; }));  // nobody sleeps yet
  CHECK_FALSE(queue.Arm());                 // work is waiting: no sleep
  CHECK(queue.Drain());
  CHECK_FALSE(queue.Drain());
  CHECK(queue.Arm());
  CHECK(queue.Push([&] { ++ran; }));
  CHECK_FALSE(queue.Push([&] { ++ran; }));
  queue.Drain();
  CHECK(ran == 3);
}

TEST_CASE("a task queued by a task waits for the next turn") {
  TaskQueue queue;
  int ran = 0;
  (void)queue.Push([&] {
    ++ran;
    (void)queue.Push([&] { ++ran; });
  });
  queue.Drain();
  CHECK(ran == 1);
  queue.Drain();
  CHECK(ran == 2);
}

TEST_CASE("closing destroys what is queued and refuses the rest") {
  TaskQueue queue;
  auto alive = std::make_shared<int>(1);
  (void)queue.Push([alive] { FAIL("must not run"); });
  queue.Close();
  CHECK(alive.use_count() == 1);
  CHECK_FALSE(queue.Push([alive] { FAIL("must not run"); }));
  CHECK(alive.use_count() == 1);
}

TEST_CASE("tasks of each producer run in its order") {
  TaskQueue queue;
  constexpr int kProducers = 4;
  constexpr int kTasks = 1000;
  std::array<int, kProducers> next{};
  bool ordered = true;
  std::vector<std::thread> producers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < kTasks; ++i) {
        (void)queue.Push([&, p, i] { ordered &= next[static_cast<size_t>(p)]++ == i; });
      }
    });
  }
  auto all_ran = [&] {
    return std::all_of(next.begin(), next.end(), [](int count) { return count == kTasks; });
  };
  while (!all_ran()) queue.Drain();
  for (std::thread& producer : producers) producer.join();
  CHECK(ordered);
}
