// A chain and its pace, on an executor that runs what a test says.
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/pipeline/chain.h"
#include "daemon/pipeline/places.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using namespace onecopy;
using namespace std::chrono_literals;

namespace paced_chain_test {
namespace {

using Clock = pipeline::Pace::Clock;

constexpr uint64_t kPiece = 100;

class ByHand final : public Executor {
 public:
  void Post(Task task) override { tasks_.push_back(std::move(task)); }
  bool InThread() const override { return true; }
  void RunAll() {
    while (!tasks_.empty()) {
      Task next = std::move(tasks_.front());
      tasks_.pop_front();
      next();
    }
  }

 private:
  std::deque<Task> tasks_;
};

// Answers as it is told, and lets a test end each wait.
class Scripted final : public pipeline::Pace {
 public:
  std::optional<Clock::time_point> Spend(uint64_t bytes) override {
    asked.push_back(bytes);
    return answer ? std::optional(Clock::now() + *answer) : std::nullopt;
  }
  void At(Clock::time_point when, Task task) override {
    until = when;
    waiting = std::move(task);
  }
  uint64_t piece_bytes() const override { return kPiece; }

  std::optional<Clock::duration> answer = Clock::duration::zero();  // nothing: no turn
  std::vector<uint64_t> asked;
  std::optional<Clock::time_point> until;
  Task waiting;
};

class AtOnce final : public pipeline::Mover {
 public:
  AtOnce(Executor& executor, uint64_t& moved) : executor_(executor), moved_(moved) {}
  void Move(const pipeline::Chunk& from, const pipeline::Chunk&, Done done) override {
    moved_ += from.bytes;
    executor_.Post([done = std::move(done)]() mutable { done({}); });
  }

 private:
  Executor& executor_;
  uint64_t& moved_;
};

struct Fixture {
  ByHand executor;
  std::shared_ptr<Scripted> pace = std::make_shared<Scripted>();
  uint64_t moved = 0;
  std::optional<pipeline::ChainReport> report;
  std::shared_ptr<pipeline::Chain> chain;

  explicit Fixture(uint64_t bytes) {
    pipeline::Places places;
    places.source = std::make_unique<pipeline::SourceRange>(0, bytes, kPiece);
    places.destination = std::make_unique<pipeline::DestinationRange>(0, bytes);
    std::vector<pipeline::Stage> stages;
    stages.push_back({std::make_unique<AtOnce>(executor, moved), 4});
    chain = std::make_shared<pipeline::Chain>(executor, std::move(places), std::move(stages));
    chain->SetPace(pace);
  }
  void Start() {
    chain->Start([this](pipeline::ChainReport ended) { report = std::move(ended); });
    executor.RunAll();
  }
  void EndWait() {
    std::exchange(pace->waiting, nullptr)();
    executor.RunAll();
  }
};

}  // namespace

TEST_CASE("a chain that is never held asks for each piece") {
  Fixture f(350);
  f.Start();
  REQUIRE(f.report);
  CHECK(f.report->status.ok());
  CHECK(f.moved == 350);
  CHECK(f.pace->asked == std::vector<uint64_t>{100, 100, 100, 50});
  CHECK(f.report->held_seconds == 0);
  CHECK_FALSE(f.chain->was_held());
}

TEST_CASE("a chain waits for the time that it was given and does not ask again for that piece") {
  Fixture f(200);
  f.pace->answer = 1h;
  f.Start();
  CHECK(f.chain->held());
  CHECK(f.moved == 0);
  CHECK(*f.pace->until > Clock::now() + 50min);
  f.pace->answer = Clock::duration::zero();
  f.EndWait();
  REQUIRE(f.report);
  CHECK(f.report->status.ok());
  CHECK(f.pace->asked == std::vector<uint64_t>{100, 100});
  CHECK(f.report->held_seconds > 0);
  CHECK(f.chain->was_held());
  CHECK_FALSE(f.chain->held());
}

TEST_CASE("a chain without a turn asks again soon until it has one") {
  Fixture f(100);
  f.pace->answer = std::nullopt;
  f.Start();
  for (int i = 0; i < 3; ++i) {
    CHECK(f.chain->held());
    CHECK(*f.pace->until <= Clock::now() + 1s);
    f.EndWait();
  }
  CHECK(f.moved == 0);
  f.pace->answer = Clock::duration::zero();
  f.EndWait();
  REQUIRE(f.report);
  CHECK(f.report->status.ok());
  CHECK(f.moved == 100);
  CHECK(f.pace->asked == std::vector<uint64_t>(5, 100));
}

TEST_CASE("a chain that is stopped while it is held ends at once and its wait wakes nothing") {
  Fixture f(100);
  f.pace->answer = 1h;
  f.Start();
  f.chain->Stop({Code::kCancelled, reasons::kCancelled, "enough"});
  f.executor.RunAll();
  REQUIRE(f.report);
  CHECK(f.report->status.code() == Code::kCancelled);
  CHECK(f.report->held_seconds > 0);
  f.EndWait();
  CHECK(f.moved == 0);
  const std::weak_ptr<pipeline::Chain> gone = f.chain;
  f.chain.reset();
  CHECK(gone.expired());
}

}  // namespace paced_chain_test
