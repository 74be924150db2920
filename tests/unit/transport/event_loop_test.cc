#include "transport/os/threads/event_loop.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

using namespace std::chrono_literals;
using onecopy::os::Clock;
using onecopy::os::EventLoop;
using onecopy::os::LoopThread;
using onecopy::os::UniqueFd;

TEST_CASE("tasks run on the loop's thread") {
  std::promise<bool> inside;
  LoopThread thread("test");
  thread.loop().Post([&] { inside.set_value(thread.loop().InThread()); });
  CHECK(inside.get_future().get());
  CHECK_FALSE(thread.loop().InThread());
}

TEST_CASE("timers run in the order of their times, cancelled ones not at all") {
  std::promise<std::vector<int>> done;
  LoopThread thread("test");
  thread.RunSync([&] {
    auto order = std::make_shared<std::vector<int>>();
    EventLoop& loop = thread.loop();
    const auto start = Clock::now();
    loop.RunAt(start + 30ms, [order, &done] { done.set_value(*order); });
    loop.RunAt(start + 20ms, [order] { order->push_back(2); });
    loop.RunAt(start + 10ms, [order] { order->push_back(1); });
    const auto cancelled = loop.RunAt(start + 15ms, [order] { order->push_back(99); });
    loop.CancelTimer(cancelled);
    loop.CancelTimer(cancelled);
    loop.CancelTimer(0);
  });
  CHECK(done.get_future().get() == std::vector<int>{1, 2});
}

TEST_CASE("a watched descriptor wakes the loop until it is unwatched") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  std::promise<char> got;
  LoopThread thread("test");
  onecopy::Status watched;
  thread.RunSync([&] {
    watched = thread.loop().Watch(reader.get(), EPOLLIN, [&](uint32_t) {
      char c = 0;
      if (::read(reader.get(), &c, 1) != 1) c = '?';
      thread.loop().Unwatch(reader.get());
      got.set_value(c);
    });
  });
  REQUIRE_OK(watched);
  REQUIRE(::write(writer.get(), "x", 1) == 1);
  CHECK(got.get_future().get() == 'x');
  REQUIRE(::write(writer.get(), "y", 1) == 1);
  thread.RunSync([] {
  });  // a turn of the loop: a handler that still ran would read "y" and set the promise twice
}

TEST_CASE("a poller runs until it has nothing left to do") {
  std::promise<int> done;
  LoopThread thread("test");
  thread.RunSync([&] {
    auto left = std::make_shared<int>(5);
    thread.loop().SetPoller(
        [&done, left] {
          if (--*left == 0) done.set_value(*left);
          return *left > 0;
        },
        0us, 10us);
    thread.loop().KickPoller();
  });
  CHECK(done.get_future().get() == 0);
}

TEST_CASE(
    "tasks and descriptors have their turn while a poller spins, and it has its own while they "
    "do") {
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const UniqueFd reader(pipe[0]), writer(pipe[1]);
  std::atomic<int> polls = 0;
  std::atomic<bool> spin = true;
  std::promise<void> heard;
  onecopy::Status watching;
  LoopThread thread("test");
  thread.RunSync([&] {
    thread.loop().SetPoller(
        [&] {
          ++polls;
          thread.loop().PollerFound();
          return spin.load();
        },
        1h, 0us);
    thread.loop().KickPoller();
    watching = thread.loop().Watch(reader.get(), EPOLLIN, [&](uint32_t) {
      thread.loop().Unwatch(reader.get());
      heard.set_value();
    });
  });
  REQUIRE_OK(watching);
  for (int i = 0; i < 100; ++i) {
    int before = 0;
    thread.RunSync([&] { before = polls; });
    while (polls == before) std::this_thread::yield();
  }
  REQUIRE(::write(writer.get(), "x", 1) == 1);
  heard.get_future().wait();
  thread.RunSync([&] { spin = false; });
}

TEST_CASE("what is queued when a loop stops is destroyed unrun") {
  auto alive = std::make_shared<int>(1);
  auto ran = std::make_shared<bool>(false);
  {
    std::promise<void> entered;
    std::promise<void> leave;
    LoopThread thread("test");
    thread.loop().Post([&] {
      entered.set_value();
      leave.get_future().wait();
    });
    entered.get_future().wait();
    thread.loop().Stop();
    thread.loop().Post([alive, ran] { *ran = true; });
    leave.set_value();
  }
  CHECK_FALSE(*ran);
  CHECK(alive.use_count() == 1);
}

TEST_CASE("waiting for a task on a loop that has ended does not wait for ever") {
  LoopThread thread("test");
  thread.StopAndJoin();
  bool ran = false;
  thread.RunSync([&] { ran = true; });
  CHECK_FALSE(ran);
}

// Whoever posts is slower than the loop, which wakes up by itself just then: sanitizers see whether
// it still touches the loop.
// Of these two the sanitizers judge: what must not be touched is memory that has gone.
TEST_CASE("a loop may be destroyed as soon as what was posted to it has run") {
  int destroyed = 0;
  for (int i = 0; i < 2000; ++i) {
    auto thread = std::make_unique<LoopThread>("test");
    EventLoop& loop = thread->loop();
    std::function<void()> tick = [&] { loop.RunAfter(1us, tick); };
    thread->RunSync([&] { tick(); });
    std::promise<void> ran;
    std::thread poster([&] { loop.Post([&] { ran.set_value(); }); });
    ran.get_future().wait();
    thread.reset();
    poster.join();
    ++destroyed;
  }
  CHECK(destroyed == 2000);
}

TEST_CASE("a loop may be destroyed as soon as it has been stopped") {
  int destroyed = 0;
  for (int i = 0; i < 2000; ++i) {
    auto loop = std::make_unique<EventLoop>();
    std::thread stopper([&, stopped = loop.get()] { stopped->Stop(); });
    loop->Run();
    loop.reset();
    stopper.join();
    ++destroyed;
  }
  CHECK(destroyed == 2000);
}

TEST_CASE("an event of a closed descriptor does not reach the next one of its number") {
  LoopThread thread("test");
  std::array<std::array<UniqueFd, 2>, 2> pipes;
  const auto open = [](std::array<UniqueFd, 2>& pipe) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    pipe = {UniqueFd(ends[0]), UniqueFd(ends[1])};
  };
  for (auto& pipe : pipes) open(pipe);
  std::array<UniqueFd, 2> next;  // has nothing to read
  open(next);
  int read = 0;
  int misled = 0;
  // Both are ready in one turn: the first that is looked at closes the other, whose number goes to
  // a pipe that is not ready.
  const auto on_ready = [&](size_t which) {
    ++read;
    UniqueFd& other = pipes[1 - which][0];
    const int number = other.get();
    thread.loop().Unwatch(pipes[which][0].get());
    thread.loop().Unwatch(number);
    REQUIRE(::dup2(next[0].get(), number) == number);
    REQUIRE(thread.loop().Watch(number, EPOLLIN, [&](uint32_t) { ++misled; }).ok());
  };
  thread.RunSync([&] {
    for (size_t i : {0, 1}) {
      REQUIRE(::write(pipes[i][1].get(), "x", 1) == 1);
      REQUIRE(
          thread.loop().Watch(pipes[i][0].get(), EPOLLIN, [&, i](uint32_t) { on_ready(i); }).ok());
    }
  });
  std::promise<void> later;  // two turns on
  thread.loop().Post([&] { thread.loop().RunAfter(1ms, [&] { later.set_value(); }); });
  later.get_future().get();
  thread.RunSync([&] {
    CHECK(read == 1);
    CHECK(misled == 0);
    for (auto& pipe : pipes) thread.loop().Unwatch(pipe[0].get());
  });
}
