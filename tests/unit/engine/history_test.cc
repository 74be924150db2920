#include "daemon/engine/base/history.h"

#include "tests/support/catch.h"

namespace history_test {
using namespace onecopy::engine;

namespace {

using Ids = std::vector<int>;

const Owner kAlice{1000, "east"};
const Owner kBob{1001, "east"};
constexpr uint64_t kMiB = uint64_t{1} << 20;

// Of a share, a sixteenth is for what is remembered; of the total, a quarter.
Ledger Of(uint64_t each, uint64_t total) {
  Limits limits;
  limits.memory = {16 * each, 4 * total};
  limits.reserved_percent = 0;
  return {"east", limits};
}

}  // namespace

TEST_CASE("of each owner the latest are remembered, whatever the others do") {
  History<int> history(Of(kMiB, 100 * kMiB), 3);
  CHECK(history.Add(kAlice, 1, 10).forgotten == Ids{});
  CHECK(history.Add(kAlice, 2, 10).forgotten == Ids{});
  CHECK(history.Add(kAlice, 3, 10).forgotten == Ids{});
  for (int i = 0; i < 100; ++i) {
    for (const int forgotten : history.Add(kBob, 100 + i, 10).forgotten) CHECK(forgotten >= 100);
  }
  CHECK(history.Add(kAlice, 4, 10).forgotten == Ids{1});
}

TEST_CASE("what is remembered is counted in bytes, however few there are") {
  const Ledger ledger = Of(4 * kMiB, 100 * kMiB);
  History<int> history(ledger, 1000);
  for (int i = 0; i < 4; ++i) CHECK(history.Add(kAlice, i, kMiB).forgotten == Ids{});
  CHECK(history.Add(kAlice, 4, 2 * kMiB).forgotten == Ids{0, 1});
  CHECK(ledger.bytes(Charged::kHistory, kAlice) == 4 * kMiB);
  // What is too large by itself is forgotten, too.
  CHECK(history.Add(kAlice, 5, 5 * kMiB).forgotten == Ids{2, 3, 4, 5});
  CHECK(ledger.bytes() == 0);
}

TEST_CASE("where all together have no room, who remembers most forgets first") {
  History<int> history(Of(10 * kMiB, 16 * kMiB), 1000);
  for (int i = 0; i < 8; ++i) CHECK(history.Add(kAlice, i, kMiB).forgotten == Ids{});
  for (uint32_t uid = 1; uid <= 8; ++uid) {
    CHECK(history.Add({uid, "east"}, 100, kMiB).forgotten == Ids{});
  }
  // Only from alice can more be taken than one each.
  CHECK(history.Add({9, "east"}, 200, kMiB).forgotten == Ids{0});
  CHECK(history.Add({10, "east"}, 200, kMiB).forgotten == Ids{1});
  // The last quarter is not for her, who has more than a little.
  CHECK(history.Add(kAlice, 8, kMiB).forgotten == Ids{2, 3, 4, 5, 6});
}

TEST_CASE("a history of nothing forgets at once") {
  History<int> history(Of(kMiB, kMiB), 0);
  CHECK(history.Add(kAlice, 1, 1).forgotten == Ids{1});
}
}  // namespace history_test
