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
