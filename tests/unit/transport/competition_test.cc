#include "transport/core/base/competition.h"

#include "tests/support/catch.h"

using onecopy::Competition;
using onecopy::Flow;
using namespace std::chrono_literals;

namespace {

const Flow kFirst{.user = 1};
const Flow kSecond{.user = 2};

}  // namespace

TEST_CASE("one owner does not compete with itself") {
  Competition competition;
  Competition::Clock::time_point now{};
  for (int i = 0; i < 10; ++i) {
    competition.Note(i % 2 == 0 ? kFirst : Flow{.user = 1, .user_weight = 3}, now);
    CHECK_FALSE(competition.on());
    now += 100ms;
  }
  competition = {};
  competition.Note(Flow(), now);  // the daemon's own, as the first
  CHECK_FALSE(competition.on());
}

TEST_CASE("two owners compete within a second of each other and for a second more") {
  Competition competition;
  Competition::Clock::time_point now{};
  competition.Note(kFirst, now);
  now += 900ms;
  competition.Note(kSecond, now);
  CHECK(competition.on());
  competition.Note(kSecond, now + 999ms);
  CHECK(competition.on());
  competition.Note(kSecond, now + 1000ms);
  CHECK_FALSE(competition.on());
  now += 3s;
  competition.Note(kFirst, now);  // the other one was two seconds ago
  CHECK_FALSE(competition.on());
  competition.Note({.node = 7, .user = 1}, now + 1ms);
  CHECK(competition.on());
}
