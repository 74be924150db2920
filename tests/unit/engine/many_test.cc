// As many transfers at once as anybody may want.
#include <vector>

#include "tests/support/engine_cluster.h"
#include "tests/support/memory.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

TEST_CASE("ten thousand transfers at once between two nodes all end well") {
  constexpr size_t kTransfers = 10'000;
  constexpr uint64_t kBytes = 64 << 10;
  EngineCluster cluster({"east", "west"}, [](const std::string&, NodePlan& plan) {
    plan.options.keep_transfers = 2 * kTransfers;
    plan.options.limits.memory = {uint64_t{4} << 30, uint64_t{16} << 30};
  });
  EngineNode& west = cluster["west"];
  const Principal alice = cluster["east"].Attach();
  const Principal bob = west.Attach();
  auto source = cluster["east"].Register(alice, "a", kBytes);
  auto sink = west.Register(bob, "b", kBytes);
  REQUIRE_OK(source);
  REQUIRE_OK(sink);
  Fill(source->data, kBytes, 1);
  TransferRequest request = Request("east:a", "west:b");
  request.policy.path_glob = "tcp-direct";
  std::vector<TransferId> started;
  for (size_t i = 0; i < kTransfers; ++i) {
    auto one = west.Start(bob, request);
    REQUIRE_OK(one);
    started.push_back(one->id);
  }
  size_t failed = 0;
  Status failure;
  for (const TransferId& id : started) {
    const TransferInfo ended = west.Wait(bob, id);
    if (ended.state == TransferState::kSucceeded && ended.receipt.attempts.size() == 1) continue;
    ++failed;
    failure = ended.error;
  }
  INFO(failure.ToString());
  CHECK(failed == 0);
  CHECK(FirstWrong(sink->data, kBytes, 1) == kBytes);
}

TEST_CASE("a client hears of each transfer's end, although more have ended than are kept") {
  constexpr size_t kKept = 4;
  constexpr uint64_t kBytes = 4096;
  EngineCluster cluster({"east", "west"}, [](const std::string&, NodePlan& plan) {
    plan.options.keep_transfers = kKept;
  });
  const std::string node = GENERATE("east", "west");  // one decides the outcome, one is told it
  CAPTURE(node);
  const Principal alice = cluster["east"].Attach();
  const Principal bob = cluster["west"].Attach();
  const Principal& who = node == "east" ? alice : bob;
  REQUIRE_OK(cluster["east"].Register(alice, "a", kBytes));
  REQUIRE_OK(cluster["west"].Register(bob, "b", kBytes));
  std::vector<TransferId> started;
  for (int i = 0; i < 100; ++i) {
    auto one = cluster[node].Start(who, Request("east:a", "west:b"));
    REQUIRE_OK(one);
    started.push_back(one->id);
  }
  for (const TransferId& id : started) {
    CHECK(cluster[node].Wait(who, id).state == TransferState::kSucceeded);
  }
  const auto left = cluster[node].Ask<Page<TransferInfo>>(
      [&](ClientApi& api, auto reply) { api.ListTransfers(who, {}, std::move(reply)); });
  REQUIRE_OK(left);
  CHECK(left->items.size() == kKept);
}
