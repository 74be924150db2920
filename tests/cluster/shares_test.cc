// What a user gets beside one who asks for far more. Nothing here is held against a clock: the
// neighbour's bytes count.
#include <signal.h>

#include <string>

#include "tests/cluster/neighbours.h"
#include "tests/cluster/pair.h"
#include "tests/cluster/users.h"
#include "tests/support/catch.h"

namespace shares_test {
namespace {

using namespace onecopy;
using namespace onecopy::testing;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// How many bytes of the neighbour's go for each transfer of a modest user.
uint64_t BulkForEach(Neighbour& bulk, Neighbour& modest, int transfers) {
  const uint64_t before = bulk.Count();
  const auto [p50, p99] = modest.Times(transfers);
  const uint64_t each = (bulk.Count() - before) / static_cast<uint64_t>(transfers);
  WARN("beside it: p50 " << p50 << " us, p99 " << p99 << " us, " << each / kMiB
                         << " MiB of the neighbour's for each");
  return each;
}

void TellAlone(Neighbour& modest) {
  const auto [p50, p99] = modest.Times(200);
  WARN("alone: p50 " << p50 << " us, p99 " << p99 << " us");
}

// Of two users that move without a pause, in the time in which the first moves that much.
double Ratio(Neighbour& first, Neighbour& second, uint64_t bytes) {
  const uint64_t first_before = first.Count();
  const uint64_t second_before = second.Count();
  WaitUntil("the first has moved its bytes", [&] { return first.Count() >= first_before + bytes; });
  const auto of_first = static_cast<double>(first.Count() - first_before);
  const auto of_second = static_cast<double>(second.Count() - second_before);
  WARN("ratio " << of_first / of_second);
  return of_first / of_second;
}

}  // namespace

TEST_CASE("inside a node 1 MiB does not wait for 64 transfers of 32 MiB of another user") {
  REQUIRE_ROOT();
  Node node("east");
  OpenTo(node);
  CreateWritten(kOther, node, "from", 128 * kMiB);
  CreateWritten(kOther, node, "to", 128 * kMiB);
  CreateWritten(kOwner, node, "mine", kMiB);
  CreateWritten(kOwner, node, "there", kMiB);
  Neighbour modest(kOwner, node, "mine", "there", kMiB, 1);
  modest.Begin();
  TellAlone(modest);
  Neighbour bulk(kOther, node, "from", "to", 32 * kMiB, 64);
  bulk.Begin();
  // 64 transfers in turns with it would have 70.
  CHECK(BulkForEach(bulk, modest, 200) < 32 * kMiB);
}

TEST_CASE("between nodes 1 MiB does not wait for 64 transfers of 32 MiB of another user") {
  REQUIRE_ROOT();
  Pair nodes;
  OpenTo(nodes.west);
  OpenTo(nodes.east);
  CreateWritten(kOther, nodes.west, "from", 128 * kMiB);
  CreateWritten(kOther, nodes.east, "to", 128 * kMiB);
  CreateWritten(kOwner, nodes.west, "mine", kMiB);
  CreateWritten(kOwner, nodes.east, "there", kMiB);
  Neighbour modest(kOwner, nodes.east, "west:mine", "there", kMiB, 1);
  modest.Begin();
  TellAlone(modest);
  Neighbour bulk(kOther, nodes.east, "west:from", "to", 32 * kMiB, 64);
  bulk.Begin();
  // 160, likewise.
  CHECK(BulkForEach(bulk, modest, 200) < 100 * kMiB);
}

TEST_CASE("two users move as their weights say and as new ones say after a reload") {
  REQUIRE_ROOT();
  Node node("east",
            {.config = "[qos.first]\nusers = \"" + std::to_string(kOwner) + "\"\nweight = 3\n"});
  OpenTo(node);
  CreateForTwo(node, 128 * kMiB);
  Neighbour first(kOwner, node, "from1", "to1", 32 * kMiB, 16);
  Neighbour second(kOther, node, "from2", "to2", 32 * kMiB, 16);
  first.Begin();
  second.Begin();
  const double by_weight = Ratio(first, second, 8192 * kMiB);
  CHECK(by_weight > 2.5);
  CHECK(by_weight < 3.5);
  WriteFile(node.folder() / "config.toml", "version = 1\n");
  node.process().Signal(SIGHUP);
  WaitUntil("the new weights are read",
            [&] { return node.Log().find("the configuration was reloaded") != std::string::npos; });
  // What began before keeps its weight until it has ended.
  (void)Ratio(first, second, 1024 * kMiB);
  const double without = Ratio(first, second, 8192 * kMiB);
  CHECK(without > 0.8);
  CHECK(without < 1.25);
}

}  // namespace shares_test
