#include "daemon/engine/base/history.h"

#include "tests/support/catch.h"

using onecopy::engine::History;
using onecopy::engine::Owner;

namespace {

using Ids = std::vector<int>;

const Owner kAlice{1000, "east"};

}  // namespace

TEST_CASE("of each owner the latest are remembered, whatever the others do") {
  History<int> history(3);
  CHECK(history.Add(kAlice, 1) == Ids{});
  CHECK(history.Add(kAlice, 2) == Ids{});
  CHECK(history.Add(kAlice, 3) == Ids{});
  for (int i = 0; i < 100; ++i) {
    for (const int forgotten : history.Add({1001, "east"}, 100 + i)) CHECK(forgotten >= 100);
  }
  CHECK(history.Add(kAlice, 4) == Ids{1});
}

TEST_CASE("where many owners of a node fill its room, who remembers most forgets first") {
  History<int> history(4);  // and 64 for all of a node
  for (int i = 0; i < 4; ++i) CHECK(history.Add(kAlice, i) == Ids{});
  int others = 0;
  for (uint32_t uid = 1; uid <= 60; ++uid) {
    CHECK(history.Add({uid, "east"}, 1000 + others++) == Ids{});
  }
  // Only from alice can more be taken than one each.
  CHECK(history.Add({61, "east"}, 2000) == Ids{0});
  CHECK(history.Add({62, "east"}, 2000) == Ids{1});
  CHECK(history.Add({63, "east"}, 2000) == Ids{2});
  CHECK(history.Add(kAlice, 4).size() == 1);
  CHECK(history.Add({1000, "west"}, 5) == Ids{});  // which has room of its own
}

TEST_CASE("a history of nothing forgets at once") {
  History<int> history(0);
  CHECK(history.Add(kAlice, 1) == Ids{1});
}
