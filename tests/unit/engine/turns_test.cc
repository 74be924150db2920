#include "daemon/engine/base/turns.h"

#include <deque>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace turns_test {
using namespace onecopy;
using engine::Owner;
using engine::Turns;

namespace {

// Runs what was posted when it is told to, one after the other.
class ByHand final : public Executor {
 public:
  void Post(Task task) override { tasks_.push_back(std::move(task)); }
  bool InThread() const override { return true; }

  bool RunOne() {
    if (tasks_.empty()) return false;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    task();
    return true;
  }
  void Stop() { tasks_.clear(); }
  size_t size() const { return tasks_.size(); }

 private:
  std::deque<Task> tasks_;
};

const Owner kAlice{1000, "east"};
const Owner kBob{1001, "east"};

}  // namespace

TEST_CASE("payers take turns, and each one's tasks run in their order") {
  ByHand executor;
  const Turns turns(executor);
  std::string done;
  for (const char c : {'a', 'b', 'c'}) turns.Post(kAlice, [&done, c] { done += c; });
  turns.Post({{1000, "user5"}, "east"}, [&done] { done += 'd'; });  // alice's account, too
  for (const char c : {'1', '2'}) turns.Post(kBob, [&done, c] { done += c; });
  CHECK(executor.size() == 1);  // the executor has room for others between two tasks
  while (executor.RunOne()) CHECK(executor.size() <= 1);
  CHECK(done == "a1b2cd");
  turns.Post(kBob, [&done] { done += '3'; });
  CHECK(executor.RunOne());
  CHECK(done == "a1b2cd3");
}

TEST_CASE(
    "what a task goes on with is before its payer's others, and after those of other payers") {
  ByHand executor;
  const Turns turns(executor);
  std::string done;
  turns.Post(kAlice, [&] {
    done += 'a';
    turns.PostNext(kAlice, [&] { done += 'A'; });
  });
  turns.Post(kAlice, [&done] { done += 'b'; });
  turns.Post(kBob, [&done] { done += '1'; });
  turns.Post(kBob, [&done] { done += '2'; });
  while (executor.RunOne()) continue;
  CHECK(done == "a1A2b");
}

TEST_CASE("a task may post others") {
  ByHand executor;
  const Turns turns(executor);
  std::string done;
  turns.Post(kAlice, [&] {
    done += 'a';
    turns.Post(kAlice, [&] { done += 'b'; });
  });
  while (executor.RunOne()) continue;
  CHECK(done == "ab");
}

TEST_CASE("an executor that stops lets go of all that waits, and of what comes later") {
  ByHand executor;
  const Turns turns(executor);
  const auto held = std::make_shared<int>(0);
  for (int i = 0; i < 3; ++i) turns.Post(kAlice, [held] { FAIL("was to be destroyed unrun"); });
  turns.Post(kBob, [held] { FAIL("was to be destroyed unrun"); });
  executor.Stop();
  CHECK(held.use_count() == 1);
  turns.Post(kBob, [held] { FAIL("was to be destroyed unrun"); });
  CHECK(held.use_count() == 1);
  CHECK(executor.size() == 0);
}
}  // namespace turns_test
