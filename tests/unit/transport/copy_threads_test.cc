// Threads that copy in turns by whose bytes they are.
#include "transport/os/memory/copy_threads.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

using namespace onecopy;
using os::CopyThreads;

namespace {

// Holds a thread until it is let go.
class Gate {
 public:
  Task Wait() {
    return [this] {
      reached_.set_value();
      open_.get_future().wait();
    };
  }
  void AwaitReached() { reached_.get_future().wait(); }
  void Open() { open_.set_value(); }

 private:
  std::promise<void> reached_;
  std::promise<void> open_;
};

std::shared_ptr<CopyThreads> Make(unsigned threads) {
  Result<std::shared_ptr<CopyThreads>> made = CopyThreads::Make("test-copy", threads);
  REQUIRE_OK(made);
  return *made;
}

}  // namespace

TEST_CASE("what several wait for goes in turns, and what one waits for in order") {
  const auto threads = Make(1);
  Gate gate;
  threads->Copy({}, 1, 1, gate.Wait());
  gate.AwaitReached();
  std::vector<int> order;  // of the one thread
  const Flow bulk{.user = 1};
  const Flow modest{.user = 2};
  constexpr uint64_t kChannel = 2;
  for (int i = 0; i < 10; ++i) {
    threads->Copy(bulk, kChannel, CopyThreads::kPieceBytes, [&order, i] { order.push_back(i); });
  }
  constexpr uint64_t kOther = 3;
  std::promise<void> done;
  threads->Copy(modest, kOther, 4096, [&order] { order.push_back(100); });
  threads->Copy(bulk, kChannel, 1, [&done] { done.set_value(); });
  gate.Open();
  done.get_future().wait();
  // A turn is worth less than a piece.
  CHECK(order == std::vector<int>{100, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  threads->Stop();
}

TEST_CASE("what is posted to the first thread runs between two copies") {
  const auto threads = Make(1);
  Gate gate;
  threads->Copy({}, 1, 1, gate.Wait());
  gate.AwaitReached();
  std::vector<std::string> order;
  std::promise<void> done;
  threads->Copy({}, 1, 1, [&] {
    order.emplace_back("first");
    threads->executor().Post([&] { order.emplace_back("posted"); });
  });
  threads->Copy({}, 1, 1, [&] {
    order.emplace_back("second");
    done.set_value();
  });
  gate.Open();
  done.get_future().wait();
  CHECK(order == std::vector<std::string>{"first", "posted", "second"});
  threads->Stop();
}

TEST_CASE("all threads copy at once where there is enough to copy") {
  constexpr unsigned kThreads = 4;
  const auto threads = Make(kThreads);
  CHECK(threads->size() == kThreads);
  // Each waits for all others: with fewer threads this would never end.
  std::atomic<unsigned> inside{0};
  std::promise<void> all;
  const std::shared_future<void> open = all.get_future().share();
  std::vector<std::future<std::thread::id>> ended;
  for (unsigned i = 0; i < kThreads; ++i) {
    auto promise = std::make_shared<std::promise<std::thread::id>>();
    ended.push_back(promise->get_future());
    threads->Copy({}, i + 1, 1, [&, open, promise] {
      if (++inside == kThreads) all.set_value();
      open.wait();
      promise->set_value(std::this_thread::get_id());
    });
  }
  std::set<std::thread::id> who;
  for (auto& one : ended) who.insert(one.get());
  CHECK(who.size() == kThreads);
  threads->Stop();
}

TEST_CASE("copies that several threads ask for all complete") {
  constexpr int kAskers = 4;
  constexpr int kEach = 2000;
  const auto threads = Make(3);
  std::atomic<int> made{0};
  std::promise<void> all;
  std::vector<std::thread> askers;
  for (int asker = 0; asker < kAskers; ++asker) {
    askers.emplace_back([&, asker] {
      const auto channel = static_cast<uint64_t>(asker);
      for (int i = 0; i < kEach; ++i) {
        threads->Copy({.user = static_cast<uint64_t>(asker)}, channel, 4096, [&] {
          if (++made == kAskers * kEach) all.set_value();
        });
      }
    });
  }
  for (std::thread& asker : askers) asker.join();
  all.get_future().wait();
  CHECK(made == kAskers * kEach);
  threads->Stop();
}

TEST_CASE("what has to end without its turn runs before what waits") {
  const auto threads = Make(1);
  Gate gate;
  threads->Copy({}, 1, 1, gate.Wait());
  gate.AwaitReached();
  std::vector<int> order;
  std::promise<void> done;
  for (int i = 0; i < 3; ++i) {
    threads->Copy({.user = 1}, 2, 1, [&order, i] { order.push_back(i); });
    threads->Copy({.user = 2}, 3, 1, [&order, i] { order.push_back(10 + i); });
  }
  threads->Copy({.user = 1}, 2, 1, [&done] { done.set_value(); });
  threads->RunNow(3);
  threads->RunNow(4);  // there is none
  gate.Open();
  done.get_future().wait();
  CHECK(order == std::vector<int>{10, 11, 12, 0, 1, 2});
  threads->Stop();
}

TEST_CASE("what still waits when the threads end is let go, also what holds the threads") {
  auto threads = Make(1);
  const std::weak_ptr<CopyThreads> weak = threads;
  Gate gate;
  threads->Copy({}, 1, 1, gate.Wait());
  gate.AwaitReached();
  const auto held = std::make_shared<int>(0);
  std::atomic<bool> ran{false};
  threads->Copy({}, 1, 1, [held, keep = threads, &ran] { ran = true; });
  CHECK(held.use_count() == 2);
  std::thread opener([&] {
    // Stop lets it go before it waits for the copy that is under way.
    while (held.use_count() > 1) std::this_thread::yield();
    gate.Open();
  });
  threads->Stop();
  opener.join();
  CHECK_FALSE(ran);
  threads->Copy({}, 1, 1, [held, keep = threads, &ran] { ran = true; });
  CHECK(held.use_count() == 1);
  threads->Stop();  // safe to repeat
  threads.reset();
  CHECK(weak.expired());
}
