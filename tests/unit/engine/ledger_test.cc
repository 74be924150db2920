#include "daemon/engine/base/ledger.h"

#include "daemon/engine/base/digest_set.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"

namespace ledger_test {
using namespace onecopy;
using engine::Charged;
using engine::DigestSet;
using engine::Ledger;
using engine::Limits;
using engine::Owner;

namespace {

const Owner kPoor{1000, "east"};
const Owner kBob{1001, "east"};
constexpr uint64_t kMiB = uint64_t{1} << 20;

Limits With(engine::Limit grants, size_t reserved_percent = 0) {
  Limits limits;
  limits.grants = grants;
  limits.reserved_percent = reserved_percent;
  return limits;
}

Limits OfMemory(uint64_t each, uint64_t total, size_t reserved_percent = 0) {
  Limits limits;
  limits.memory = {each, total};
  limits.reserved_percent = reserved_percent;
  return limits;
}

Ledger::Charge Take(const Ledger& ledger, const Owner& owner, bool administrator = false,
                    Charged kind = Charged::kGrants, uint64_t bytes = 0) {
  auto charge = ledger.Take(kind, owner, administrator, bytes);
  REQUIRE_OK(charge);
  return std::move(*charge);
}

bool Fits(const Ledger& ledger, const Owner& owner, uint64_t bytes,
          Charged kind = Charged::kTickets) {
  return ledger.Take(kind, owner, false, bytes).ok();
}

}  // namespace

TEST_CASE("a charge counts as its owner's for as long as it is kept") {
  const Ledger ledger("east", With({2, 10}));
  {
    const Ledger::Charge one = Take(ledger, kPoor);
    Ledger::Charge two = Take(ledger, kPoor);
    CHECK(ledger.count(Charged::kGrants, kPoor) == 2);
    CHECK_FALSE(ledger.Take(Charged::kGrants, kPoor, false).ok());
    REQUIRE_OK(ledger.Take(Charged::kGrants, kBob, false));
    two.GiveBack();
    CHECK(two.count() == 0);
    two = Take(ledger, kPoor);
    const Ledger::Charge moved = std::move(two);
    CHECK(ledger.count(Charged::kGrants, kPoor) == 2);
    CHECK(ledger.count(Charged::kGrants) == 2);
    CHECK(ledger.bytes() > 0);
  }
  CHECK(ledger.count(Charged::kGrants, kPoor) == 0);
  CHECK(ledger.count(Charged::kGrants) == 0);
  CHECK(ledger.bytes() == 0);
}

TEST_CASE("a charge may be of several things, of which some are given back") {
  const Ledger ledger("east", With({3, 10}));
  Ledger::Charge some;
  REQUIRE_OK(ledger.TakeInto(some, Charged::kGrants, kPoor, false));
  REQUIRE_OK(ledger.TakeInto(some, Charged::kGrants, kPoor, false));
  some.Absorb(Take(ledger, kPoor));
  CHECK(some.count() == 3);
  CHECK_FALSE(ledger.TakeInto(some, Charged::kGrants, kPoor, false).ok());
  some.GiveBack(2);
  CHECK(ledger.count(Charged::kGrants, kPoor) == 1);
  REQUIRE_OK(ledger.TakeInto(some, Charged::kGrants, kPoor, false));
  some.GiveBack();
  CHECK(ledger.count(Charged::kGrants) == 0);
  CHECK(ledger.bytes() == 0);
}

TEST_CASE("a number that is used up names the limit and where it is set") {
  Limits limits;
  limits.request_ids = {1, 2};
  const Ledger ledger("east", limits);
  const Ledger::Charge one = Take(ledger, kPoor, false, Charged::kRequestIds);
  const Status each = ledger.Take(Charged::kRequestIds, kPoor, false).status();
  CHECK(each.code() == Code::kResourceExhausted);
  CHECK(each.reason() == reasons::kQuota);
  CHECK(each.message() == "1000@east has 1 request ids on node east, the limit of one user");
  CHECK(each.remedy() == "free some, or raise [limits] request_ids_per_user, which is 1");
  limits.reserved_percent = 0;
  const Ledger all_ledger("east", limits);
  const Ledger::Charge first = Take(all_ledger, kPoor, false, Charged::kRequestIds);
  const Ledger::Charge two = Take(all_ledger, kBob, false, Charged::kRequestIds);
  const Status all = all_ledger.Take(Charged::kRequestIds, {1002, "east"}, false).status();
  CHECK(all.reason() == reasons::kQuota);
  CHECK(all.remedy() == "try again later, or raise [limits] request_ids, which is 2");
  CHECK(engine::WholeNode("west").ToString() == "node west");
  CHECK(engine::Stranger("10.1.1.7").ToString() == "the address 10.1.1.7");
}

TEST_CASE("an administrator is bound by the totals alone, of which a part is reserved") {
  const Ledger ledger("east", With({1, 4}, 25));
  Ledger::Charge charges;
  REQUIRE_OK(ledger.TakeInto(charges, Charged::kGrants, kPoor, false));
  const Ledger::Charge bob = Take(ledger, kBob);
  Ledger::Charge root;
  const Owner kRoot{0, "east"};
  // Which takes nobody else's room.
  REQUIRE_OK(ledger.TakeInto(root, Charged::kGrants, kRoot, true));
  {
    const Ledger::Charge third = Take(ledger, {1002, "east"});
    // The fourth place is not for everybody.
    CHECK_FALSE(ledger.Take(Charged::kGrants, {1003, "east"}, false).ok());
    CHECK(ledger.TakeInto(root, Charged::kGrants, kRoot, true).reason() == reasons::kQuota);
  }
  REQUIRE_OK(ledger.TakeInto(root, Charged::kGrants, kRoot, true));
  CHECK_FALSE(ledger.Take(Charged::kGrants, {1003, "east"}, false).ok());  // all are taken
  root.GiveBack(1);
  REQUIRE_OK(ledger.Take(Charged::kGrants, {1003, "east"}, false));
}

TEST_CASE("what a payer has is counted in bytes, of all kinds together") {
  const Ledger ledger("east", OfMemory(10 * kMiB, 1000 * kMiB));
  const Ledger::Charge tickets = Take(ledger, kPoor, false, Charged::kTickets, 4 * kMiB);
  Ledger::Charge transfer = Take(ledger, kPoor, false, Charged::kTransfers, 4 * kMiB);
  const Status full = ledger.Take(Charged::kArrivals, kPoor, false, 2 * kMiB).status();
  CHECK(full.reason() == reasons::kQuota);
  CHECK(full.message() ==
        "1000@east uses 8.01 MiB (transfers 4.01 MiB, promised transfers 4 MiB) of node east's "
        "memory, and one user may have 10 MiB at a time: no room for 2 MiB more");
  CHECK(full.remedy() ==
        "end some of that work, or raise [limits] memory_per_user, which is 10 MiB");
  CHECK(Fits(ledger, kBob, 9 * kMiB));  // whom that does not concern
  CHECK(Fits(ledger, kPoor, kMiB));
  transfer.GiveBack();
  CHECK(Fits(ledger, kPoor, 5 * kMiB));
  // Of what is there already more may be found, and is not refused: the next one is.
  Ledger::Charge other = Take(ledger, kPoor, false, Charged::kRequests);
  other.SetBytes(20 * kMiB);
  CHECK(ledger.bytes(Charged::kRequests, kPoor) >= 20 * kMiB);
  CHECK_FALSE(Fits(ledger, kPoor, 0));
  other.SetBytes(0);
  CHECK(Fits(ledger, kPoor, kMiB));
}

TEST_CASE("a few who have much leave room for those who have little") {
  const Ledger ledger("east", OfMemory(40 * kMiB, 160 * kMiB));
  std::vector<Ledger::Charge> large;
  for (uint32_t uid = 1; uid <= 3; ++uid) {
    large.push_back(Take(ledger, {uid, "east"}, false, Charged::kTickets, 39 * kMiB));
  }
  const Owner fourth{4, "east"};
  const Status full = ledger.Take(Charged::kTickets, fourth, false, 11 * kMiB).status();
  CHECK(full.message() ==
        "the users of node east together use as much of its memory as they may, apart from what is "
        "reserved for users with little");
  CHECK(full.remedy() == "try again later, or raise [limits] memory, which is 160 MiB");
  CHECK(Fits(ledger, fourth, 9 * kMiB));
  REQUIRE_OK(ledger.Take(Charged::kTickets, {0, "east"}, true, 30 * kMiB));
}

TEST_CASE("whoever has used up its share may still end what it has, and is remembered") {
  const Ledger ledger("east", OfMemory(16 * kMiB, 160 * kMiB));
  const Ledger::Charge all = Take(ledger, kPoor, false, Charged::kTickets, 15 * kMiB);
  CHECK_FALSE(Fits(ledger, kPoor, kMiB, Charged::kRequests));
  CHECK(Fits(ledger, kPoor, kMiB, Charged::kEndings));
  CHECK_FALSE(Fits(ledger, kPoor, 2 * kMiB, Charged::kEndings));  // its own part, an eighth
  CHECK(Fits(ledger, kPoor, kMiB / 2, Charged::kHistory));
  CHECK_FALSE(Fits(ledger, kPoor, 2 * kMiB, Charged::kHistory));
}

TEST_CASE("all of a user's namespaces pay from one account, and so do all users of a peer") {
  const Ledger ledger("east", With({1, 10}));
  const Ledger::Charge one = Take(ledger, {{1000, "user7"}, "east"});
  CHECK_FALSE(ledger.Take(Charged::kGrants, {{1000, "user8.pid9"}, "east"}, false).ok());
  CHECK_FALSE(ledger.Take(Charged::kGrants, kPoor, false).ok());
  CHECK(engine::PayerAt("east", "east", kPoor) == kPoor);
  CHECK(engine::PayerAt("east", "west", {1000, "west"}) == engine::WholeNode("west"));
}

TEST_CASE("the ledger tells when much has been given back") {
  const Ledger ledger("east", {});
  int fell = 0;
  ledger.OnFall([&fell] { ++fell; });
  Ledger::Charge some = Take(ledger, kPoor, false, Charged::kTickets, 100 * kMiB);
  some.SetBytes(90 * kMiB);
  CHECK(fell == 0);
  some.SetBytes(60 * kMiB);
  CHECK(fell == 1);
  some.SetBytes(70 * kMiB);
  some.GiveBack();
  CHECK(fell == 2);
  ledger.OnFall(nullptr);
  Take(ledger, kPoor, false, Charged::kTickets, 100 * kMiB).GiveBack();
  CHECK(fell == 2);
}

TEST_CASE("charges may outlive their ledger") {
  Ledger::Charge charge;
  {
    const Ledger ledger("east", {});
    charge = Take(ledger, kPoor);
  }
  charge.SetBytes(7);
  charge.GiveBack();
  CHECK(charge.count() == 0);
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
}  // namespace ledger_test
