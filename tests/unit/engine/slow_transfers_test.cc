// The counts of slow transfers, while nodes come and go.
#include "daemon/engine/probing/slow_transfers.h"

#include <set>
#include <string>

#include "tests/support/catch.h"

using onecopy::engine::SlowTransfers;

namespace slow_transfers_test {
namespace {

std::string Name(size_t number) { return "node-" + std::to_string(number); }

}  // namespace

TEST_CASE("names that have left do not fill memory and the count of a known node only grows") {
  std::set<std::string> known = {"here", "west"};
  SlowTransfers slow([&](const std::string& node) { return known.contains(node); });
  CHECK(slow.of("west") == 0);
  slow.Count("here");
  slow.Count("west");
  slow.Count("west");
  for (size_t i = 0; i < 3 * SlowTransfers::kMost; ++i) {
    known.insert(Name(i));
    slow.Count(Name(i));
    CHECK(slow.of(Name(i)) == 1);
    known.erase(Name(i));
    REQUIRE(slow.names() <= SlowTransfers::kMost);
  }
  CHECK(slow.of("here") == 1);
  CHECK(slow.of("west") == 2);
  slow.Count("west");
  CHECK(slow.of("west") == 3);
}

TEST_CASE("as many nodes as are known keep their counts") {
  SlowTransfers slow([](const std::string&) { return true; });
  for (size_t i = 0; i <= SlowTransfers::kMost; ++i) slow.Count(Name(i));
  CHECK(slow.names() == SlowTransfers::kMost + 1);
  CHECK(slow.of(Name(0)) == 1);
  CHECK(slow.of(Name(SlowTransfers::kMost)) == 1);
}

}  // namespace slow_transfers_test
