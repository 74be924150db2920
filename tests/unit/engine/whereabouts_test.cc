// Where a peer is dialled, by what the configuration, discovery and the peer itself say.
#include "daemon/engine/peering/whereabouts.h"

#include "tests/support/catch.h"

using onecopy::engine::Whereabouts;
using Next = onecopy::engine::Whereabouts::Next;

TEST_CASE("the address of the configuration counts, whatever else is said") {
  Whereabouts where("a");
  CHECK_FALSE(where.Configure("a"));
  CHECK(where.Configure("b"));
  CHECK(where.address() == "b");
  CHECK_FALSE(where.IsNews("c"));
  where.Doubt("c");
  CHECK_FALSE(where.in_doubt());
  CHECK_FALSE(where.MoveOn());
  CHECK(where.address() == "b");
  where.ConfigureNoMore();
  CHECK(where.IsNews("c"));
}

TEST_CASE("a peer that answers is not left for the address where it is discovered") {
  Whereabouts where("a");
  CHECK(where.Discover("a", false) == Next::kStay);
  CHECK(where.Discover("b", true) == Next::kAskHere);
  CHECK(where.Discover("b", true) == Next::kStay);  // it has been asked
  CHECK(where.in_doubt());
  SECTION("it answers") {
    where.Heard();
    where.Settle();
    CHECK_FALSE(where.in_doubt());
    CHECK(where.answered());
    CHECK(where.address() == "a");
    // And is found there once it does not.
    CHECK(where.MoveOn());
    CHECK(where.address() == "b");
    CHECK_FALSE(where.answered());
  }
  SECTION("it does not") {
    CHECK(where.MoveOn());
    CHECK(where.address() == "b");
    CHECK_FALSE(where.MoveOn());
  }
  SECTION("it is discovered here again") {
    CHECK(where.Discover("a", true) == Next::kStay);
    CHECK_FALSE(where.MoveOn());
  }
}

TEST_CASE("what a peer says of itself is tried, and what is discovered after that") {
  Whereabouts where("a");
  CHECK(where.Discover("a", false) == Next::kStay);
  CHECK(where.IsNews("b"));
  where.Follow("b");
  CHECK(where.address() == "b");
  CHECK(where.MoveOn());
  CHECK(where.address() == "a");
  CHECK_FALSE(where.MoveOn());
}

TEST_CASE("a peer of which another one of its name is heard is left once it does not answer") {
  Whereabouts where("a");
  where.Doubt("a");
  CHECK_FALSE(where.in_doubt());
  where.Doubt("b");
  CHECK(where.in_doubt());
  SECTION("it answers, and was never discovered: the other one is forgotten") {
    where.Heard();
    where.Settle();
    CHECK_FALSE(where.in_doubt());
    CHECK_FALSE(where.MoveOn());
  }
  SECTION("it does not") {
    CHECK(where.MoveOn());
    CHECK(where.address() == "b");
  }
}

TEST_CASE("a peer that is not discovered any more has nowhere else to be") {
  Whereabouts where("a");
  CHECK(where.Discover("b", false) == Next::kMoveOn);
  CHECK(where.MoveOn());
  where.Vanish();
  CHECK(where.vanished());
  CHECK(where.in_doubt());
  CHECK_FALSE(where.discovered());
  CHECK_FALSE(where.MoveOn());
  CHECK(where.Discover("b", false) == Next::kStay);
  CHECK_FALSE(where.in_doubt());
}
