// How fast bytes of users, nodes and single transfers may move.
#include "daemon/engine/base/paces.h"

#include <chrono>
#include <cstdint>
#include <memory>

#include "daemon/engine/base/rate_limit.h"
#include "tests/support/catch.h"
#include "transport/os/threads/event_loop.h"

using namespace onecopy;
using namespace std::chrono_literals;
using engine::Flows;
using engine::Owner;
using engine::Paces;
using engine::RateLimit;
using engine::ShareOptions;

namespace paces_test {
namespace {

using Clock = RateLimit::Clock;

constexpr uint64_t kMiB = uint64_t{1} << 20;

Owner User(uint32_t uid, const std::string& node = "east") { return {Uid(uid), node}; }

ShareOptions Limit(std::vector<engine::UserPattern> users, std::vector<std::string> nodes,
                   uint64_t bytes_per_second) {
  return {std::move(users), std::move(nodes), std::nullopt, bytes_per_second, std::nullopt};
}

bool AtOnce(engine::TransferPace& pace, uint64_t bytes) {
  const auto when = pace.Spend(bytes);
  return when && *when <= Clock::now();
}

}  // namespace

TEST_CASE("a limit gives each piece its time in the order in which pieces ask") {
  RateLimit limit;
  const Clock::time_point now = Clock::now();
  CHECK(limit.Spend(100 * kMiB, now) <= now);  // no limit yet
  limit.SetRate(10 * kMiB);
  CHECK(limit.Spend(10 * kMiB, now) == now - RateLimit::kSlack);
  CHECK(limit.Spend(5 * kMiB, now) == now - RateLimit::kSlack + 1s);
  CHECK(limit.Spend(1, now + 100ms) == now - RateLimit::kSlack + 1500ms);
}

TEST_CASE("what was not used lately is not saved up") {
  RateLimit limit;
  limit.SetRate(kMiB);
  const Clock::time_point now = Clock::now();
  (void)limit.Spend(kMiB, now);
  const Clock::time_point later = now + 1h;
  CHECK(limit.Spend(kMiB, later) == later - RateLimit::kSlack);
  CHECK(limit.Spend(kMiB, later) == later - RateLimit::kSlack + 1s);
}

TEST_CASE("of what was spent at another rate no more than a second is left") {
  RateLimit limit;
  const Clock::time_point now = Clock::now();
  limit.SetRate(kMiB, now);
  (void)limit.Spend(10 * kMiB, now);
  CHECK_FALSE(limit.MayAsk(now));
  limit.SetRate(kMiB, now);
  CHECK_FALSE(limit.MayAsk(now));
  limit.SetRate(10 * kMiB, now);
  CHECK(limit.MayAsk(now));
  CHECK(limit.Spend(kMiB, now) == now + RateLimit::kAhead);
  limit.SetRate(0, now);
  CHECK(limit.MayAsk(now));
  CHECK(limit.Spend(kMiB, now) <= now);
}

TEST_CASE("times are given for a second ahead and a gap is no longer than that") {
  RateLimit limit;
  const Clock::time_point now = Clock::now();
  limit.SetRate(10 * kMiB, now);
  int given = 0;
  while (limit.MayAsk(now)) {
    CHECK(limit.Spend(kMiB, now) <= now + RateLimit::kAhead);
    ++given;
  }
  CHECK(given == 11);
  CHECK(limit.MayAsk(now + 100ms));
  CHECK_FALSE(limit.IsMadeUpFor(now));
  CHECK(limit.IsMadeUpFor(now + 2s));
}

TEST_CASE("transfers one after the other keep a limit together") {
  os::EventLoop loop;
  Paces paces(loop);
  Flows flows;
  flows.Configure({Limit({{1, "east"}}, {}, kMiB)});
  CHECK(AtOnce(*paces.Of(flows, User(1), "east", {"a", 0}), 10 * kMiB));
  for (uint32_t i = 100; i < 1000; ++i) (void)paces.Of(flows, User(i), "east", {"x", 0});
  CHECK_FALSE(paces.Of(flows, User(1), "east", {"b", 0})->Spend(kMiB));
}

TEST_CASE("any number of bytes at any rate has a time") {
  RateLimit limit;
  const Clock::time_point now = Clock::now();
  limit.SetRate(1, now);
  CHECK(limit.Spend(UINT64_MAX, now) <= now);
  CHECK(limit.Spend(1, now) <= now + 24h);
}

TEST_CASE("transfers of one user share its limit and those of another do not") {
  os::EventLoop loop;
  Paces paces(loop);
  Flows flows;
  flows.Configure({Limit({{std::nullopt, "*"}}, {}, 10 * kMiB)});
  const auto first = paces.Of(flows, User(1), "east", {"a", 0});
  const auto second = paces.Of(flows, User(1), "east", {"b", 0});
  const auto other = paces.Of(flows, User(2), "east", {"c", 0});
  CHECK(AtOnce(*first, 100 * kMiB));
  CHECK_FALSE(second->Spend(kMiB));
  CHECK(AtOnce(*other, kMiB));
  CHECK(first->limited());
  CHECK(first->Describe() == "10.49 MB/s for user 1@east");
  CHECK(first->piece_bytes() == 256 << 10);
}

TEST_CASE("the users of a node keep its limit together, and each its own beside it") {
  os::EventLoop loop;
  Paces paces(loop);
  Flows flows;
  flows.Configure({Limit({}, {"west"}, 20 * kMiB), Limit({{7, "west"}}, {}, 100 * kMiB)});
  const auto first = paces.Of(flows, User(7, "west"), "west", {"a", 0});
  const auto second = paces.Of(flows, User(8, "west"), "west", {"b", 0});
  CHECK(AtOnce(*first, 200 * kMiB));
  CHECK_FALSE(second->Spend(1));
  CHECK(first->Describe() == "104.86 MB/s for user 7@west, 20.97 MB/s for node west");
  CHECK_FALSE(paces.Of(flows, User(7, "west"), "east", {"c", 0})->Describe().empty());
}

TEST_CASE("parts of one transfer keep its own limit together") {
  os::EventLoop loop;
  Paces paces(loop);
  const Flows flows;
  const auto first = paces.Of(flows, User(1), "east", {"whole", 10 * kMiB});
  const auto second = paces.Of(flows, User(1), "east", {"whole", 10 * kMiB});
  const auto other = paces.Of(flows, User(1), "east", {"another", 10 * kMiB});
  CHECK(AtOnce(*first, 100 * kMiB));
  CHECK_FALSE(second->Spend(kMiB));
  CHECK(AtOnce(*other, kMiB));
  CHECK(first->Describe() == "10.49 MB/s for this transfer");
}

TEST_CASE("the first part of a transfer says its own limit") {
  os::EventLoop loop;
  Paces paces(loop);
  const Flows flows;
  const auto first = paces.Of(flows, User(1), "east", {"whole", 10 * kMiB});
  const auto second = paces.Of(flows, User(1), "east", {"whole", 1000 * kMiB});
  CHECK(first->Describe() == "10.49 MB/s for this transfer");
  CHECK(second->Describe() == first->Describe());
}

TEST_CASE("a changed limit holds for what runs, one that comes and one that goes") {
  os::EventLoop loop;
  Paces paces(loop);
  Flows flows;
  const auto pace = paces.Of(flows, User(1), "east", {"a", 0});
  CHECK_FALSE(pace->limited());
  CHECK(pace->piece_bytes() == UINT64_MAX);
  flows.Configure({Limit({{1, "east"}}, {}, kMiB)});
  paces.Refresh(flows);
  CHECK(pace->limited());
  (void)pace->Spend(10 * kMiB);
  CHECK_FALSE(pace->Spend(kMiB));
  flows.Configure({});
  paces.Refresh(flows);
  CHECK(AtOnce(*pace, kMiB));
}

TEST_CASE("limits of transfers that have ended are forgotten") {
  os::EventLoop loop;
  Paces paces(loop);
  const Flows flows;
  for (int i = 0; i < 10000; ++i) {
    (void)paces.Of(flows, User(static_cast<uint32_t>(i)), "east", {std::to_string(i), kMiB});
  }
  CHECK(paces.known() < 500);
}

}  // namespace paces_test
