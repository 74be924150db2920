// Which member takes which piece from which: decisions, with a clock that the test moves.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "client/lib/broadcast/chain.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"

namespace broadcast_chain_test {
namespace {

using onecopy::Code;
using onecopy::Status;
using onecopy::client::Chain;
using Take = Chain::Take;
using Takes = std::vector<Take>;
namespace reasons = onecopy::reasons;

const Status kGone(Code::kUnavailable, reasons::kPeerDown, "it has gone");
const Status kFull(Code::kResourceExhausted, reasons::kQuota, "as many as there may be");
const Chain::Time kStart{};

// Lets everything that is due happen at once until nothing is; how many pieces each gave.
std::map<size_t, size_t> RunToTheEnd(Chain& chain, Chain::Time now) {
  std::map<size_t, size_t> given;
  for (Takes due = chain.Due(now); !due.empty(); due = chain.Due(now)) {
    for (const Take& take : due) {
      ++given[take.from];
      chain.Arrived(take, now);
    }
  }
  return given;
}

}  // namespace

TEST_CASE("each member takes pieces from its neighbour, and the source sends each piece once") {
  Chain chain(5, 40, false, {});
  CHECK(chain.Due(kStart) == Takes{{1, 0, 0}, {1, 0, 1}});
  CHECK(chain.Due(kStart).empty());  // no more than so many under way
  chain.Arrived({1, 0, 1}, kStart);
  // It need not come in order, and only what is there goes on.
  CHECK(chain.Due(kStart) == Takes{{1, 0, 2}});
  chain.Arrived({1, 0, 0}, kStart);
  CHECK(chain.Due(kStart) == Takes{{1, 0, 3}, {2, 1, 0}, {2, 1, 1}});
  CHECK_FALSE(chain.done());
  for (const Take& take : Takes{{1, 0, 2}, {1, 0, 3}, {2, 1, 0}, {2, 1, 1}}) {
    chain.Arrived(take, kStart);
  }
  const auto given = RunToTheEnd(chain, kStart);
  CHECK(chain.done());
  CHECK(given.at(0) == 36);
  for (size_t member = 1; member < 5; ++member) CHECK(chain.has_all(member));
}

TEST_CASE("each member takes a small payload from the source") {
  Chain chain(4, 1, true, {});
  CHECK(chain.Due(kStart) == Takes{{1, 0, 0}, {2, 0, 0}, {3, 0, 0}});
  chain.Failed({2, 0, 0}, kGone, kStart);
  chain.Arrived({1, 0, 0}, kStart);
  chain.Arrived({3, 0, 0}, kStart);
  CHECK(chain.done());
  CHECK(chain.failure(2)->reason() == reasons::kPeerDown);
}

TEST_CASE("members skip a failed member and keep the pieces that it sent") {
  Chain chain(4, 2, false, {});
  for (const Take& take : chain.Due(kStart)) chain.Arrived(take, kStart);
  CHECK(chain.Due(kStart) == Takes{{2, 1, 0}, {2, 1, 1}});
  chain.Arrived({2, 1, 0}, kStart);
  chain.Failed({2, 1, 1}, kGone, kStart);  // it may be the fault of either
  CHECK(chain.passed_over(2).at(1).reason() == reasons::kPeerDown);
  CHECK(chain.Due(kStart) == Takes{{2, 0, 1}, {3, 2, 0}});
  chain.Failed({2, 0, 1}, kGone, kStart);  // its own, then
  CHECK(chain.failure(2)->reason() == reasons::kPeerDown);
  chain.Failed({3, 2, 0}, kGone, kStart);
  CHECK(chain.Due(kStart) == Takes{{3, 1, 0}, {3, 1, 1}});
  chain.Arrived({3, 1, 0}, kStart);
  chain.Arrived({3, 1, 1}, kStart);
  CHECK(chain.done());
  CHECK(chain.has_all(3));
}

TEST_CASE("members skip a stalled member after the timeout, and not earlier") {
  Chain chain(4, 2, false, {});
  const auto soon = kStart + Chain::kPatience - std::chrono::milliseconds(1);
  const auto late = kStart + Chain::kPatience;
  CHECK(chain.Due(kStart).size() == 2);  // into 1, where nothing arrives
  CHECK(chain.Due(soon).empty());
  CHECK_FALSE(chain.IsStuck({1, 0, 0}, late));  // there is nowhere else to take it from
  // 2 goes around it, and 3 waits for 2, which moves.
  CHECK(chain.Due(late) == Takes{{2, 0, 0}, {2, 0, 1}});
  chain.Arrived({2, 0, 0}, late);
  CHECK(chain.Due(late) == Takes{{3, 2, 0}});
  chain.Arrived({1, 0, 0}, late);  // it moves again
  chain.Arrived({1, 0, 1}, late);
  chain.Arrived({2, 0, 1}, late);
  chain.Arrived({3, 2, 0}, late);
  RunToTheEnd(chain, late);
  CHECK(chain.done());
  CHECK(chain.passed_over(2).empty());  // it was nobody's failure
}

TEST_CASE("members wait for a slow member") {
  Chain chain(3, 1, false, {});
  CHECK(chain.Due(kStart).size() == 1);
  auto now = kStart;
  for (int i = 0; i < 100; ++i) {
    now += Chain::kPatience - std::chrono::milliseconds(1);
    chain.Moved(1, now);
    CHECK(chain.Due(now).empty());
  }
}

TEST_CASE("a stalled transfer is stuck if another member has the piece") {
  Chain chain(3, 1, false, {});
  chain.Due(kStart);
  chain.Arrived({1, 0, 0}, kStart);
  CHECK(chain.Due(kStart) == Takes{{2, 1, 0}});
  const auto late = kStart + Chain::kPatience;
  CHECK_FALSE(chain.IsStuck({2, 1, 0}, late - std::chrono::milliseconds(1)));
  CHECK(chain.IsStuck({2, 1, 0}, late));
  chain.Failed({2, 1, 0}, kGone, late);
  CHECK(chain.Due(late) == Takes{{2, 0, 0}});
  CHECK_FALSE(chain.IsStuck({2, 0, 0}, late + Chain::kPatience));  // the last way is waited for
}

TEST_CASE("at a limit, fewer pieces are under way, and with none it pauses") {
  Chain chain(2, 8, false, {});
  const Takes due = chain.Due(kStart);
  REQUIRE(due.size() == 2);
  chain.PutOff(due[1], kFull, kStart);
  CHECK(chain.Due(kStart).empty());  // one is under way, and no more had room
  chain.Arrived(due[0], kStart);
  CHECK(chain.Due(kStart) == Takes{{1, 0, 1}, {1, 0, 2}});
  chain.PutOff({1, 0, 1}, kFull, kStart);
  chain.PutOff({1, 0, 2}, kFull, kStart);
  CHECK(chain.Due(kStart).empty());
  const auto later = kStart + std::chrono::seconds(1);
  CHECK(chain.Due(later) == Takes{{1, 0, 1}});
  chain.Arrived({1, 0, 1}, later);
  RunToTheEnd(chain, later);
  CHECK(chain.done());
}

TEST_CASE("a member fails with the error of the last member that it took from") {
  Chain chain(4, 1, false, {});
  chain.Due(kStart);
  chain.Arrived({1, 0, 0}, kStart);
  CHECK(chain.Due(kStart) == Takes{{2, 1, 0}});
  chain.Failed({2, 1, 0}, kGone, kStart);
  CHECK(chain.Due(kStart) == Takes{{2, 0, 0}});
  chain.GiveUp(1, kGone, kStart);
  chain.Failed({2, 0, 0}, kGone, kStart);
  CHECK(chain.failure(2).has_value());
  CHECK_FALSE(chain.failure(3).has_value());  // the source is left
  CHECK(chain.Due(kStart) == Takes{{3, 0, 0}});
  chain.Failed({3, 0, 0}, kGone, kStart);
  CHECK(chain.done());
}

TEST_CASE("a member that is away is tried again, and the members behind it skip it") {
  using std::chrono::seconds;
  Chain chain(3, 2, false, seconds(30));
  const Takes first = chain.Due(kStart);
  chain.Arrived(first[0], kStart);
  chain.Failed(first[1], kGone, kStart);
  CHECK_FALSE(chain.failure(1));
  // It has piece 0 and may still give that; 1 comes from farther up, without any patience.
  CHECK(chain.Due(kStart) == Takes{{2, 1, 0}, {2, 0, 1}});
  chain.Failed({2, 1, 0}, kGone, kStart);
  CHECK(chain.Due(kStart) == Takes{{2, 0, 0}});
  chain.Arrived({2, 0, 0}, kStart);
  chain.Arrived({2, 0, 1}, kStart);
  CHECK_FALSE(chain.done());
  auto now = kStart + Chain::kTryAgain;
  CHECK(chain.Due(now) == Takes{{1, 0, 1}});
  chain.Failed({1, 0, 1}, kGone, now);
  CHECK(chain.Due(now).empty());
  SECTION("and it is back in time") {
    now += Chain::kTryAgain;
    CHECK(chain.Due(now) == Takes{{1, 0, 1}});
    chain.Arrived({1, 0, 1}, now);
    CHECK(chain.has_all(1));
    CHECK(chain.passed_over(1).contains(0));  // which stays told
  }
  SECTION("and it is not") {
    now += seconds(30);
    CHECK(chain.Due(now) == Takes{{1, 0, 1}});
    chain.Failed({1, 0, 1}, kGone, now);
    CHECK(chain.failure(1)->reason() == reasons::kPeerDown);
  }
  SECTION("and then it says no") {
    now += Chain::kTryAgain;
    CHECK(chain.Due(now) == Takes{{1, 0, 1}});
    chain.Failed({1, 0, 1}, Status(Code::kNotFound, reasons::kBufferNotFound, "no buffer"), now);
    CHECK(chain.failure(1)->reason() == reasons::kBufferNotFound);
  }
  CHECK(chain.done());
}

TEST_CASE("members do not wait for a member that is away and lacks their piece") {
  using std::chrono::seconds;
  Chain chain(4, 2, false, seconds(30));
  for (const Take& take : chain.Due(kStart)) chain.Failed(take, kGone, kStart);  // 1 is away
  CHECK(chain.Due(kStart) == Takes{{2, 0, 0}, {2, 0, 1}});
  chain.Failed({2, 0, 0}, kGone, kStart);
  chain.Failed({2, 0, 1}, kGone, kStart);
  // 2 is away itself, and does not wait for 1; nor does 3 wait for either.
  CHECK(chain.Due(kStart) == Takes{{3, 0, 0}, {3, 0, 1}});
  const auto later = kStart + Chain::kTryAgain;
  CHECK(chain.Due(later) == Takes{{1, 0, 0}, {1, 0, 1}, {2, 0, 0}, {2, 0, 1}});
  chain.GiveUp(1, kGone, later);
  CHECK_FALSE(chain.failure(2));
}

TEST_CASE("a member is away if one of its sources did not answer, even if another refused") {
  Chain chain(3, 2, false, std::chrono::seconds(30));
  for (const Take& take : chain.Due(kStart)) chain.Arrived(take, kStart);
  CHECK(chain.Due(kStart) == Takes{{2, 1, 0}, {2, 1, 1}});
  const Status no(Code::kNotFound, reasons::kBufferNotFound, "no buffer");
  chain.Failed({2, 1, 0}, no, kStart);
  CHECK(chain.Due(kStart) == Takes{{2, 0, 0}});
  chain.Failed({2, 0, 0}, kGone, kStart);
  chain.Arrived({2, 1, 1}, kStart);
  CHECK_FALSE(chain.failure(2));
  CHECK(chain.Due(kStart + Chain::kTryAgain) == Takes{{2, 1, 0}});
}

TEST_CASE("a member fails if a limit blocks it for too long") {
  Chain chain(2, 1, false, {});
  auto now = kStart;
  for (int i = 0; i < 1000 && !chain.done(); ++i) {
    for (const Take& take : chain.Due(now)) chain.PutOff(take, kFull, now);
    now += std::chrono::milliseconds(200);
  }
  REQUIRE(chain.done());
  CHECK(chain.failure(1)->reason() == reasons::kQuota);
  CHECK(now - kStart >= Chain::kLimited);
}

TEST_CASE("a member that gets its last piece after it was given up has succeeded") {
  Chain chain(2, 1, false, {});
  CHECK(chain.Due(kStart).size() == 1);
  chain.GiveUp(1, kGone, kStart);
  CHECK_FALSE(chain.done());
  chain.Arrived({1, 0, 0}, kStart);
  CHECK(chain.done());
  CHECK_FALSE(chain.failure(1));
}

TEST_CASE(
    "random failures: it ends, no piece moves twice, and each member in reach gets every piece") {
  for (uint32_t seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const size_t members = 2 + random() % 8;
    const size_t pieces = 1 + random() % 12;
    const bool may_return = random() % 2 == 0;
    // From which step on a node does not answer, and until when.
    std::map<size_t, std::pair<size_t, size_t>> away;
    for (size_t member = 1; member < members; ++member) {
      if (random() % 3 != 0) continue;
      const size_t from = random() % 40;
      away[member] = {from, may_return ? from + 5 + random() % 10 : 1'000'000};
    }
    Chain chain(members, pieces, pieces == 1 && random() % 2 == 0,
                may_return ? std::chrono::hours(1) : std::chrono::hours(0));
    auto now = kStart;
    Takes under_way;
    std::set<std::pair<size_t, size_t>> arrived;
    size_t step = 0;
    const auto is_away = [&](size_t member) {
      const auto found = away.find(member);
      return found != away.end() && step >= found->second.first && step < found->second.second;
    };
    while (!chain.done()) {
      REQUIRE(++step < 10'000);
      for (const Take& take : chain.Due(now)) under_way.push_back(take);
      now += std::chrono::milliseconds(random() % 3000);
      if (under_way.empty()) continue;
      const size_t which = random() % under_way.size();
      const Take take = under_way[which];
      under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(which));
      if (random() % 16 == 0) {
        chain.PutOff(take, kFull, now);
      } else if (is_away(take.to) || is_away(take.from)) {
        chain.Failed(take, kGone, now);
      } else {
        CHECK(arrived.emplace(take.to, take.piece).second);
        chain.Arrived(take, now);
      }
    }
    for (size_t member = 1; member < members; ++member) {
      const bool is_sure = may_return || !away.contains(member);
      if (is_sure) CHECK(chain.has_all(member));
      CHECK(chain.has_all(member) == !chain.failure(member).has_value());
    }
  }
}

}  // namespace broadcast_chain_test
