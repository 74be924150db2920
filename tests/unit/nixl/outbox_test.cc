#include "client/nixl/outbox.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using namespace onecopy;
using namespace onecopy::nixl;

namespace {

// Keeps what it delivers, and waits before each until it may.
class Recorder {
 public:
  Status operator()(const std::string& agent, const std::string& text) {
    std::unique_lock lock(mutex_);
    ++begun_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    delivered_.push_back(agent + ":" + text);
    if (text == "bad") return {Code::kAborted, reasons::kOwnerDied, "nobody is there"};
    return OkStatus();
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void AwaitBegun(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_ >= count; });
  }
  std::vector<std::string> delivered() {
    const std::lock_guard lock(mutex_);
    return delivered_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int begun_ = 0;
  std::vector<std::string> delivered_;
};

}  // namespace

TEST_CASE("what goes to one agent stays in order, and holds up no other") {
  Recorder recorder;
  {
    std::optional<Outbox> outbox;
    Workers workers(4);
    outbox.emplace(workers, std::ref(recorder));
    for (int i = 0; i < 50; ++i) REQUIRE_OK(outbox->Post("one", std::to_string(i)));
    REQUIRE_OK(outbox->Post("two", "other"));
    recorder.AwaitBegun(2);  // one of each
    std::thread sender([&] { CHECK(outbox->Send("one", "last").ok()); });
    recorder.Open();
    sender.join();
    const auto delivered = recorder.delivered();
    std::vector<std::string> to_one;
    for (const std::string& each : delivered) {
      if (each.starts_with("one:")) to_one.push_back(each);
    }
    REQUIRE(to_one.size() == 51);
    for (int i = 0; i < 50; ++i)
      CHECK(to_one[static_cast<size_t>(i)] == "one:" + std::to_string(i));
    CHECK(to_one.back() == "one:last");
  }
  CHECK(recorder.delivered().size() == 52);
}

TEST_CASE("a failure that nobody waited for is the next one's, and each is told once") {
  Recorder recorder;
  recorder.Open();
  std::optional<Outbox> outbox;
  Workers workers(2);
  outbox.emplace(workers, std::ref(recorder));
  CHECK(outbox->Send("one", "bad").reason() == reasons::kOwnerDied);
  REQUIRE_OK(outbox->Post("one", "good"));
  REQUIRE_OK(outbox->Post("one", "bad"));
  REQUIRE_OK(outbox->Send("one", "behind it"));
  REQUIRE_OK(outbox->Post("two", "good"));
  CHECK(outbox->Post("one", "not taken").reason() == reasons::kOwnerDied);
  REQUIRE_OK(outbox->Post("one", "good"));
  REQUIRE_OK(outbox->Send("one", "end"));
  CHECK(recorder.delivered().back() == "one:end");
}
