// Routes whose long copies end with news that another thread brings.
#include "daemon/pipeline/awaited_route.h"

#include <deque>

#include "tests/support/catch.h"

using namespace onecopy;
using pipeline::AwaitedRoute;
using namespace std::chrono_literals;

namespace {

// A thread whose tasks the test runs.
struct FakeThread final : Executor {
  void Post(Task task) override { tasks.push_back(std::move(task)); }
  bool InThread() const override { return true; }
  std::deque<Task> tasks;
};

// Copies that end when the test says so.
struct FakeRoute final : SmallCopyRoute {
  void SetTransfer(uint64_t number) override { transfer = number; }
  Status Begin(uint64_t, uint64_t, uint64_t) override { return ++begun, OkStatus(); }
  uint64_t Mark() override { return begun; }
  bool Reached(uint64_t mark, Status* failure) override {
    if (mark > ended) return false;
    *failure = outcome;
    return true;
  }
  void Cancel() override { cancelled = true; }
  std::shared_ptr<const SmallSteps> steps() const override { return given; }
  uint64_t begun = 0;
  uint64_t ended = 0;
  uint64_t transfer = 0;
  bool cancelled = false;
  Status outcome;
  std::shared_ptr<const SmallSteps> given = std::make_shared<SmallSteps>();
};

struct Waiting {
  ~Waiting() { thread->tasks.clear(); }  // they hold it

  std::shared_ptr<FakeThread> thread = std::make_shared<FakeThread>();
  std::shared_ptr<FakeRoute> inner = std::make_shared<FakeRoute>();
  AwaitedRoute::Clock::time_point now{};
  AwaitedRoute route{inner, thread, [this] { return now; }};
  Status failure;

  uint64_t Begin() {
    REQUIRE_OK(route.Begin(0, 0, 1 << 20));
    return route.Mark();
  }
  // The copy is still under way then.
  void Look(uint64_t mark, std::chrono::microseconds later) {
    now += later;
    REQUIRE_FALSE(route.Reached(mark, &failure));
  }
  void End(uint64_t mark, std::chrono::microseconds later) {
    REQUIRE_FALSE(route.Reached(mark, &failure));
    now += later;
    inner->ended = mark;
    REQUIRE(route.Reached(mark, &failure));
  }
};

}  // namespace

TEST_CASE("a thread is kept awake for the end of a copy once it is known how long they take") {
  Waiting rig;
  rig.End(rig.Begin(), 3ms);
  CHECK(rig.thread->tasks.empty());
  const uint64_t mark = rig.Begin();
  rig.Look(mark, 2840us);
  CHECK(rig.thread->tasks.empty());  // it would be awake for nothing
  rig.Look(mark, 20us);
  CHECK(rig.thread->tasks.size() == 1);
  rig.Look(mark, 20us);
  CHECK(rig.thread->tasks.size() == 1);  // once for each
  // It comes again, until the copy is late, and then no more.
  int times = 0;
  while (!rig.thread->tasks.empty()) {
    Task task = std::move(rig.thread->tasks.front());
    rig.thread->tasks.pop_front();
    rig.now += 10us;
    ++times;
    task();
    REQUIRE(rig.thread->tasks.size() <= 1);
  }
  CHECK(times == 37);  // 370 of the 400 µs; 30 had passed
  rig.End(mark, 120us);
  const uint64_t next = rig.Begin();
  rig.Look(next, 3300us);
  CHECK(rig.thread->tasks.size() == 1);  // the last one took 3.37 ms, and that is known now
}

TEST_CASE("a thread that looks late is not kept awake for a copy that should have ended") {
  Waiting rig;
  rig.End(rig.Begin(), 3ms);
  rig.Look(rig.Begin(), 4ms);
  CHECK(rig.thread->tasks.empty());
}

TEST_CASE("copies that failed, or had company, do not tell how long one takes") {
  Waiting rig;
  rig.inner->outcome = Status(Code::kAborted, "CANCELLED", "not made");
  rig.End(rig.Begin(), 3ms);
  CHECK(rig.failure.reason() == "CANCELLED");
  rig.inner->outcome = OkStatus();
  rig.failure = OkStatus();
  (void)rig.Begin();
  rig.End(rig.Begin(), 3ms);
  const uint64_t mark = rig.Begin();
  for (int i = 0; i < 1000; ++i) rig.Look(mark, 5us);
  CHECK(rig.thread->tasks.empty());
}

TEST_CASE("what a route is asked for otherwise goes to the one inside") {
  Waiting rig;
  rig.route.SetTransfer(7);
  CHECK(rig.inner->transfer == 7);
  rig.route.Cancel();
  CHECK(rig.inner->cancelled);
  CHECK(rig.route.steps() == rig.inner->steps());
}
