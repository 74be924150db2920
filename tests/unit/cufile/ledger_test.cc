// Counters that do not tell transfers apart, beside what this process has asked for.
#include "transport/store/cufile/ledger.h"

#include "tests/support/catch.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"

using namespace onecopy;
using namespace onecopy::cufile;
using namespace onecopy::testing;

namespace {

// What nvidia-fs counts, as a file that a test writes.
struct Counted {
  TempFolder folder;
  std::string stats = folder / "stats";
  Ledger ledger{std::make_shared<Counts>(std::make_shared<shim::CuFileApi>(), stats)};

  void Direct(int reads) { WriteFile(stats, "Reads : n=" + std::to_string(reads) + " ok=1\n"); }
};

}  // namespace

TEST_CASE("all that has ended has to be counted, whoever asked for it") {
  Counted counted;
  counted.Direct(10);
  const auto window = counted.ledger.Open("g");
  REQUIRE(window);
  counted.ledger.Begin("g", 3);
  counted.ledger.End("g", 3, 3);
  counted.Direct(13);
  CHECK(counted.ledger.Look("g", *window).direct);
  CHECK(counted.ledger.Look("g", *window).counted == 3);
  // Somebody else's, which nobody has counted.
  counted.ledger.Begin("g", 1);
  CHECK(counted.ledger.Look("g", *window).direct);
  counted.ledger.End("g", 1, 1);
  CHECK_FALSE(counted.ledger.Look("g", *window).direct);
  CHECK_FALSE(counted.ledger.Look("g", *window).through_gpu);
  // What failed counts nowhere.
  const auto later = counted.ledger.Open("g");
  counted.ledger.Begin("g", 1);
  counted.ledger.End("g", 1, 0);
  CHECK(counted.ledger.Look("g", *later).direct);
}

TEST_CASE("what was under way when one began to look may have been counted before") {
  Counted counted;
  counted.ledger.Begin("g", 1);
  counted.Direct(1);
  const auto window = counted.ledger.Open("g");
  counted.ledger.End("g", 1, 1);
  CHECK(counted.ledger.Look("g", *window).direct);
  counted.ledger.Begin("g", 1);
  counted.ledger.End("g", 1, 1);
  CHECK_FALSE(counted.ledger.Look("g", *window).direct);
}

TEST_CASE("where nobody counts nothing is seen") {
  Counted counted;
  CHECK_FALSE(counted.ledger.Open("g"));
  CHECK_FALSE(counted.ledger.Look("g", {}).direct);
  CHECK_FALSE(counted.ledger.Look("g", {}).why_not.empty());
}

TEST_CASE("others are those who were there, and those who have come since") {
  Counted counted;
  Ledger& ledger = counted.ledger;
  const auto first = ledger.Join("g");
  CHECK(ledger.Others("g", first) == 0);
  const auto second = ledger.Join("g");
  CHECK(ledger.Others("g", first) == 1);
  CHECK(ledger.Others("g", second) == 1);
  ledger.Leave("g");
  const auto third = ledger.Join("g");
  CHECK(ledger.Others("g", first) == 2);
  CHECK(ledger.Others("g", third) == 1);
  CHECK(ledger.Others("h", ledger.Join("h")) == 0);
}
