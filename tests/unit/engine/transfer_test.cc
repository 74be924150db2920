// Transfers inside a node and between nodes, as far as everything goes well.
#include <algorithm>

#include "onecopy/reasons.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/memory.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace {

bool Holds(const std::byte* data, uint64_t bytes, uint64_t seed, uint64_t from) {
  return FirstWrong(data, bytes, seed, from) == bytes;
}

}  // namespace

TEST_CASE("every path between nodes moves exactly the range, and its receipt says how") {
  EngineCluster cluster({"east", "west"});
  const Principal alice = cluster["east"].Attach();
  const Principal bob = cluster["west"].Attach();
  const auto [path, copies] = GENERATE(table<std::string, size_t>(
      {{"", 3}, {"tcp-direct", 3}, {"tcp-bounce", 4}, {"tcp-staged", 5}}));
  const uint64_t bytes = GENERATE(0, 1, 4095, 65536, 65537, 3'000'001);
  CAPTURE(path, bytes);

  auto source = cluster["east"].Register(alice, "a", bytes + 20);
  auto sink = cluster["west"].Register(bob, "b", bytes + 20);
  REQUIRE_OK(source);
  REQUIRE_OK(sink);
  Fill(*source, 1);
  Fill(*sink, 2);
  TransferRequest request =
      Request("east:a@7+" + std::to_string(bytes), "west:b@13+" + std::to_string(bytes));
  request.policy.path_glob = path;
  request.checksum = true;
  auto copied = cluster["west"].Copy(bob, request);
  REQUIRE_OK(copied);
  INFO(copied->error.ToString());
  REQUIRE(copied->state == TransferState::kSucceeded);
  CHECK(copied->bytes_done == bytes);
  CHECK(Holds(sink->data + 13, bytes, 1, 7));
  CHECK(Holds(sink->data, 13, 2, 0));
  CHECK(Holds(sink->data + 13 + bytes, 7, 2, 13 + bytes));

  const Receipt& receipt = copied->receipt;
  CHECK(receipt.path == (path.empty() ? "tcp-direct" : path));
  CHECK(receipt.link == "tcp");
  CHECK(receipt.key == "none");
  CHECK(receipt.steps.size() == (bytes == 0 ? 0 : copies));
  uint64_t carried = 0;
  for (const LaneBytes& lane : receipt.lanes) carried += lane.bytes;
  CHECK(carried == bytes);
  for (const ExecutedStep& step : receipt.steps) CHECK(step.bytes == bytes);
  REQUIRE(receipt.checksum);
  CHECK(receipt.checksum->verified);
  CHECK(std::any_of(receipt.refused.begin(), receipt.refused.end(), [](const Refusal& refusal) {
    return refusal.path == "rdma-direct" && refusal.reason == reasons::kNoRdmaDevice;
  }));
}

TEST_CASE("inside a node one copy is enough, and two are made when asked for") {
  EngineCluster cluster({"east"});
  const Principal alice = cluster["east"].Attach();
  const auto [path, copies] =
      GENERATE(table<std::string, size_t>({{"", 1}, {"local", 1}, {"peer-bounce", 2}}));
  const uint64_t bytes = GENERATE(0, 1, 9'000'001);
  CAPTURE(path, bytes);
  auto source = cluster["east"].Register(alice, "a", bytes + 5);
  auto sink = cluster["east"].Register(alice, "b", bytes + 5);
  REQUIRE_OK(source);
  REQUIRE_OK(sink);
  Fill(*source, 3);
  TransferRequest request = Request("a@5", "b");
  request.policy.path_glob = path;
  request.checksum = true;
  auto copied = cluster["east"].Copy(alice, request);
  REQUIRE_OK(copied);
  INFO(copied->error.ToString());
  REQUIRE(copied->state == TransferState::kSucceeded);
  CHECK(copied->receipt.path == (path.empty() ? "local" : path));
  CHECK(copied->receipt.steps.size() == (bytes == 0 ? 0 : copies));
  CHECK(Holds(sink->data, bytes, 3, 5));
}

TEST_CASE("ranges of one buffer may be disjoint but not overlap") {
  EngineCluster cluster({"east"});
  const Principal alice = cluster["east"].Attach();
  auto buffer = cluster["east"].Register(alice, "a", 1000);
  REQUIRE_OK(buffer);
  Fill(*buffer, 4);
  auto disjoint = cluster["east"].Copy(alice, Request("a@0+500", "a@500"));
  REQUIRE_OK(disjoint);
  CHECK(disjoint->state == TransferState::kSucceeded);
  CHECK(Holds(buffer->data + 500, 500, 4, 0));
  for (const char* destination : {"a@499", "a@0", "a@1"}) {
    const auto overlapping = cluster["east"].Start(alice, Request("a@0+500", destination));
    CHECK(overlapping.status().reason() == reasons::kRangesOverlap);
  }
}

TEST_CASE("a third node orders a transfer between two others, and sees it through") {
  EngineCluster cluster({"east", "north", "west"});
  const Principal alice = cluster["east"].Attach();
  const Principal bob = cluster["west"].Attach();
  const Principal carol = cluster["north"].Attach();
  auto source = cluster["east"].Register(alice, "a", 5'000'000);
  auto sink = cluster["west"].Register(bob, "b", 5'000'000);
  REQUIRE_OK(source);
  REQUIRE_OK(sink);
  Fill(*source, 6);
  auto copied = cluster["north"].Copy(carol, Request("east:a", "west:b"));
  REQUIRE_OK(copied);
  INFO(copied->error.ToString());
  CHECK(copied->state == TransferState::kSucceeded);
  CHECK(copied->role == TransferRole::kInitiator);
  CHECK(copied->receipt.steps.size() == 3);
  CHECK(Holds(sink->data, 5'000'000, 6, 0));
  // Both ends know it as well.
  CHECK(cluster["east"].Wait(alice, copied->id).role == TransferRole::kSource);
  CHECK(cluster["west"].Wait(bob, copied->id).role == TransferRole::kDestination);
}

TEST_CASE("what is only asked is answered by the node that was asked, whatever part it has") {
  EngineCluster cluster({"east", "west", "north"});
  const Principal in_east = cluster["east"].Attach();
  const Principal in_west = cluster["west"].Attach();
  REQUIRE_OK(cluster["east"].CreateBuffer(in_east, "a", 16));
  REQUIRE_OK(cluster["west"].CreateBuffer(in_west, "b", 16));
  const auto ask = [&](const std::string& node) {
    TransferRequest request = Request("east:a", "west:b");
    request.validate_only = true;
    const auto planned = cluster[node].Start(cluster[node].Attach(), request);
    REQUIRE_OK(planned);
    return planned->role;
  };
  CHECK(ask("west") == TransferRole::kDestination);
  CHECK(ask("east") == TransferRole::kSource);
  CHECK(ask("north") == TransferRole::kInitiator);
}
