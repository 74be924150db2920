// Copies in two stages, whose stages end when the test says so.
#include "daemon/pipeline/chained_route.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using namespace onecopy;
using pipeline::ChainedRoute;

namespace {

constexpr uint64_t kBetween = 4096;
constexpr uint64_t kEnd = 64 * 1024;

Step StepOn(const char* node) { return {.node = node, .from = "a", .to = "b", .by = "test"}; }

// Copies inside this process. Only as many end as the test allows.
struct StageRoute final : SmallCopyRoute {
  StageRoute(std::byte* from, std::byte* to, const char* node)
      : from(from),
        to(to),
        given(std::make_shared<SmallSteps>(
            std::make_shared<const std::vector<Step>>(1, StepOn(node)))) {}

  Status Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) override {
    if (!refuse.ok()) return refuse;
    under_way.push_back({from_offset, to_offset, bytes});
    most = std::max(most, under_way.size());
    ++begun;
    return OkStatus();
  }
  uint64_t Mark() override { return begun; }
  bool Reached(uint64_t mark, Status* failure) override {
    while (ended < std::min(mark, allowed)) {
      const auto [from_offset, to_offset, bytes] = under_way.front();
      under_way.pop_front();
      std::memcpy(to + to_offset, from + from_offset, bytes);
      ++ended;
    }
    if (ended < mark) return false;
    if (!outcome.ok() && mark > failing) *failure = outcome;
    return true;
  }
  void Cancel() override { cancelled = true; }
  std::shared_ptr<const SmallSteps> steps() const override { return given; }

  std::byte* const from;
  std::byte* const to;
  const std::shared_ptr<SmallSteps> given;
  std::deque<std::array<uint64_t, 3>> under_way;
  size_t most = 0;  // under way at a time
  uint64_t begun = 0;
  uint64_t ended = 0;
  uint64_t allowed = UINT64_MAX;
  Status refuse;
  Status outcome;  // of the copies from `failing` on
  uint64_t failing = 0;
  bool cancelled = false;
};

struct Chain {
  std::vector<std::byte> source = std::vector<std::byte>(kEnd);
  std::vector<std::byte> between = std::vector<std::byte>(kBetween);
  std::vector<std::byte> destination = std::vector<std::byte>(kEnd);
  std::shared_ptr<StageRoute> first =
      std::make_shared<StageRoute>(source.data(), between.data(), "east");
  std::shared_ptr<StageRoute> second =
      std::make_shared<StageRoute>(between.data(), destination.data(), "west");
  std::vector<Status> told;
  ChainedRoute route{first, second, kBetween, [this](const Status& why) { told.push_back(why); }};
  Status failure;

  Chain() {
    for (size_t i = 0; i < kEnd; ++i) source[i] = static_cast<std::byte>(i * 37 >> 3);
  }
  // At the same offset in source and destination.
  uint64_t Begin(uint64_t at, uint64_t bytes) {
    REQUIRE_OK(route.Begin(at, at, bytes));
    return route.Mark();
  }
  // Asks until it has ended.
  void Finish(uint64_t mark) {
    for (int i = 0; i < 1000 && !route.Reached(mark, &failure); ++i) {
    }
    REQUIRE(route.Reached(mark, &failure));
  }
  bool Arrived(uint64_t at, uint64_t bytes) const {
    return std::equal(source.begin() + at, source.begin() + at + bytes, destination.begin() + at);
  }
};

Status Broken() { return {Code::kUnavailable, reasons::kLinkDown, "broken"}; }

}  // namespace

TEST_CASE("a copy in two stages ends with its second one, and has the steps of both") {
  Chain chain;
  chain.first->allowed = 0;
  chain.second->allowed = 0;
  const uint64_t mark = chain.Begin(100, 1000);
  CHECK_FALSE(chain.route.Reached(mark, &chain.failure));
  CHECK(chain.second->begun == 0);
  chain.first->allowed = 1;
  CHECK_FALSE(chain.route.Reached(mark, &chain.failure));
  CHECK(chain.second->begun == 1);
  CHECK_FALSE(chain.route.Reached(mark, &chain.failure));
  chain.second->allowed = 1;
  CHECK(chain.route.Reached(mark, &chain.failure));
  CHECK(chain.failure.ok());
  CHECK(chain.Arrived(100, 1000));
  const StepList steps = chain.route.steps()->Get();
  REQUIRE(steps != nullptr);
  REQUIRE(steps->size() == 2);
  CHECK((*steps)[0].node == "east");
  CHECK((*steps)[1].node == "west");
}

TEST_CASE("steps that only copies can tell are there once one has ended") {
  Chain chain;
  chain.second->given->Set(nullptr);
  ChainedRoute route(chain.first, chain.second, kBetween, nullptr);
  CHECK(route.steps()->Get() == nullptr);
  REQUIRE_OK(route.Begin(0, 0, 8));
  chain.second->given->Set(std::make_shared<const std::vector<Step>>(2, StepOn("west")));
  const uint64_t mark = route.Mark();
  while (!route.Reached(mark, &chain.failure)) {
  }
  REQUIRE(route.steps()->Get() != nullptr);
  CHECK(route.steps()->Get()->size() == 3);
}

TEST_CASE("copies that find no room between the stages wait, and no two share a byte there") {
  Chain chain;
  const uint64_t longest = GENERATE(64, 4096);
  std::mt19937 random(GENERATE(range(1U, 20U)));
  const auto below = [&](uint64_t limit) { return random() % limit; };
  struct Asked {
    uint64_t at;
    uint64_t bytes;
    uint64_t mark;
  };
  std::deque<Asked> asked;
  uint64_t at = 0;
  while (at < kEnd || !asked.empty()) {
    const uint64_t bytes = std::min(1 + below(longest), kEnd - at);
    if (at < kEnd && asked.size() < SmallCopyRoute::kMaxUnderWay) {
      REQUIRE_OK(chain.route.Begin(at, at, bytes));
      asked.push_back({at, bytes, 0});
      at += bytes;
      asked.back().mark = chain.route.Mark();
    }
    // As little as possible ends at a time.
    chain.first->allowed = chain.first->ended + below(3);
    chain.second->allowed = chain.second->ended + below(3);
    if (!asked.empty() && chain.route.Reached(asked.front().mark, &chain.failure)) {
      REQUIRE(chain.failure.ok());
      REQUIRE(chain.Arrived(asked.front().at, asked.front().bytes));
      asked.pop_front();
    }
    std::vector<std::array<uint64_t, 2>> taken;
    for (const auto& [from, to, length] : chain.first->under_way) taken.push_back({to, length});
    for (const auto& [from, to, length] : chain.second->under_way) taken.push_back({from, length});
    std::sort(taken.begin(), taken.end());
    for (size_t i = 0; i < taken.size(); ++i) {
      REQUIRE(taken[i][0] + taken[i][1] <= kBetween);
      if (i > 0) REQUIRE(taken[i - 1][0] + taken[i - 1][1] <= taken[i][0]);
    }
  }
  CHECK(chain.Arrived(0, kEnd));
  CHECK(chain.told.empty());
}

TEST_CASE("copies that fit are in both stages at the same time") {
  Chain chain;
  chain.first->allowed = 0;
  uint64_t mark = 0;
  for (uint64_t i = 0; i < 40; ++i) mark = chain.Begin(i * 256, 256);
  CHECK(chain.first->most == kBetween / 256);
  chain.first->allowed = UINT64_MAX;
  chain.Finish(mark);
  CHECK(chain.Arrived(0, 40 * 256));
}

TEST_CASE("a copy as long as the memory between the stages fits, and a longer one is refused") {
  Chain chain;
  chain.Finish(chain.Begin(0, kBetween));
  chain.Finish(chain.Begin(kBetween, kBetween));
  CHECK(chain.Arrived(0, 2 * kBetween));
  CHECK(chain.route.Begin(0, 0, kBetween + 1).reason() == reasons::kRangeOutOfBuffer);
  CHECK(chain.route.Mark() == 2);
}

TEST_CASE("a copy that fails in either stage fails all later ones, and says so once") {
  Chain chain;
  StageRoute& stage = GENERATE(true, false) ? *chain.first : *chain.second;
  chain.first->allowed = 0;
  for (uint64_t i = 0; i < 8; ++i) chain.Begin(i * 256, 256);
  stage.outcome = Broken();
  stage.failing = 8;
  chain.first->allowed = UINT64_MAX;
  chain.Finish(8);
  CHECK(chain.failure.ok());
  CHECK(chain.Arrived(0, 8 * 256));
  chain.Finish(chain.Begin(0, 8));
  CHECK(chain.failure.reason() == reasons::kLinkDown);
  stage.outcome = OkStatus();
  const uint64_t begun = chain.first->begun;
  chain.failure = OkStatus();
  chain.Finish(chain.Begin(0, 8));
  CHECK(chain.failure.reason() == reasons::kLinkDown);
  CHECK(chain.first->begun == begun);
  CHECK(chain.told.size() == 1);
  chain.failure = OkStatus();
  CHECK(chain.route.Reached(8, &chain.failure));
  CHECK(chain.failure.ok());
}

TEST_CASE("after a failure nothing ends before the hardware has let its part go") {
  Chain chain;
  chain.first->allowed = 1;
  chain.second->allowed = 0;
  chain.Begin(0, 256);
  chain.Begin(256, 256);
  CHECK_FALSE(chain.route.Reached(1, &chain.failure));  // the first is in its second stage
  chain.first->outcome = Broken();
  chain.first->failing = 1;
  chain.first->allowed = 2;
  CHECK_FALSE(chain.route.Reached(2, &chain.failure));
  CHECK_FALSE(chain.route.Reached(2, &chain.failure));
  chain.second->allowed = 1;
  chain.Finish(1);
  CHECK(chain.failure.ok());
  CHECK(chain.Arrived(0, 256));
  chain.Finish(2);
  CHECK(chain.failure.reason() == reasons::kLinkDown);
  CHECK(chain.second->begun == 1);
}

TEST_CASE("a stage that does not take a copy fails it") {
  Chain chain;
  StageRoute& stage = GENERATE(true, false) ? *chain.first : *chain.second;
  stage.refuse = Broken();
  chain.Finish(chain.Begin(0, 8));
  CHECK(chain.failure.reason() == reasons::kLinkDown);
  CHECK(chain.told.size() == 1);
}

TEST_CASE("cancelling reaches both stages, and nothing begins afterwards") {
  Chain chain;
  chain.first->allowed = 0;
  uint64_t mark = 0;
  for (uint64_t i = 0; i < 40; ++i) mark = chain.Begin(i * 256, 256);
  const uint64_t begun = chain.first->begun;
  REQUIRE(begun < 40);  // the others wait for room
  chain.route.Cancel();
  CHECK(chain.first->cancelled);
  CHECK(chain.second->cancelled);
  chain.first->allowed = UINT64_MAX;
  chain.Finish(mark);
  CHECK(chain.failure.reason() == reasons::kCancelled);
  CHECK(chain.first->begun == begun);
  CHECK(chain.second->begun == 0);
}
