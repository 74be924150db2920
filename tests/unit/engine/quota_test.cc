#include "daemon/engine/base/quota.h"

#include "daemon/engine/base/digest_set.h"
#include "tests/support/catch.h"
#include "transport/core/reasons.h"

using namespace onecopy;
using engine::DigestSet;
using engine::Owner;
using engine::Principal;
using engine::Quota;

namespace {

const Owner kPoor{1000, "east"};
const Owner kBob{1001, "east"};

Quota::Charge Take(Quota& quota, const Owner& owner, bool administrator = false) {
  auto charge = quota.Take(owner, administrator);
  REQUIRE_OK(charge);
  return std::move(*charge);
}

}  // namespace

TEST_CASE("a charge counts as its owner's for as long as it is kept") {
  Quota quota("east", "things", {2, 10}, 0);
  {
    const Quota::Charge one = Take(quota, kPoor);
    Quota::Charge two = Take(quota, kPoor);
    CHECK(quota.of(kPoor) == 2);
    CHECK_FALSE(quota.Take(kPoor, false).ok());
    REQUIRE_OK(quota.Take(kBob, false));
    two.GiveBack();
    CHECK(two.count() == 0);
    two = Take(quota, kPoor);
    const Quota::Charge moved = std::move(two);
    CHECK(quota.of(kPoor) == 2);
    CHECK(quota.all() == 2);
  }
  CHECK(quota.of(kPoor) == 0);
  CHECK(quota.all() == 0);
}

TEST_CASE("a charge may be of several things, of which some are given back") {
  Quota quota("east", "things", {3, 10}, 0);
  Quota::Charge some;
  REQUIRE_OK(quota.TakeInto(some, kPoor, false));
  REQUIRE_OK(quota.TakeInto(some, kPoor, false));
  some.Absorb(Take(quota, kPoor));
  CHECK(some.count() == 3);
  CHECK_FALSE(quota.TakeInto(some, kPoor, false).ok());
  some.GiveBack(2);
  CHECK(quota.of(kPoor) == 1);
  REQUIRE_OK(quota.TakeInto(some, kPoor, false));
  some.GiveBack();
  CHECK(quota.all() == 0);
}

TEST_CASE("a quota that is used up names the limit and where it is set") {
  Quota quota("east", "request_ids", {1, 2}, 0);
  const Quota::Charge one = Take(quota, kPoor);
  const Status each = quota.Take(kPoor, false).status();
  CHECK(each.code() == Code::kResourceExhausted);
  CHECK(each.reason() == reasons::kQuota);
  CHECK(each.message() ==
        "1000@east has 1 request ids on node east, as many as one user may have at a time");
  CHECK(each.remedy() == "let go of some, or raise [limits] request_ids_per_user, which is 1");
  const Quota::Charge two = Take(quota, kBob);
  const Status all = quota.Take({1002, "east"}, false).status();
  CHECK(all.reason() == reasons::kQuota);
  CHECK(all.remedy() == "try again later, or raise [limits] request_ids, which is 2");
  CHECK(engine::WholeNode("west").ToString() == "node west");
}

TEST_CASE("an administrator is bound by the total alone, of which a part is reserved") {
  Quota quota("east", "things", {1, 4}, 25);
  Quota::Charge charges;
  REQUIRE_OK(quota.TakeInto(charges, kPoor, false));
  const Quota::Charge bob = Take(quota, kBob);
  Quota::Charge root;
  REQUIRE_OK(quota.TakeInto(root, {0, "east"}, true));  // which takes nobody else's room
  {
    const Quota::Charge third = Take(quota, {1002, "east"});
    CHECK_FALSE(quota.Take({1003, "east"}, false).ok());  // the fourth place is not for everybody
    CHECK(quota.TakeInto(root, {0, "east"}, true).reason() == reasons::kQuota);
  }
  REQUIRE_OK(quota.TakeInto(root, {0, "east"}, true));
  CHECK_FALSE(quota.Take({1003, "east"}, false).ok());  // all are taken
  root.GiveBack(1);
  REQUIRE_OK(quota.Take({1003, "east"}, false));
}

TEST_CASE("a set of digests has what was put into it") {
  DigestSet set;
  CHECK_FALSE(set.Contains(0));
  for (uint64_t i = 0; i < 10'000; ++i) set.Insert(i * i * 0x9e3779b97f4a7c15);
  set.Insert(0x9e3779b97f4a7c15);  // again
  CHECK(set.size() == 10'000);
  for (uint64_t i = 0; i < 10'000; ++i) REQUIRE(set.Contains(i * i * 0x9e3779b97f4a7c15));
  for (uint64_t i = 0; i < 10'000; ++i) REQUIRE_FALSE(set.Contains(i * 0x123456789 + 7));
}
