// Transfers that a peer calls by the id of another one.
#include "onecopy/reasons.h"
#include "tests/support/memory.h"
#include "tests/unit/engine/ring_of.h"
#include "tests/unit/engine/wild_reader.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kStolenBytes = 300'000;

Result<bool> ReportSuccess(EngineCluster& cluster, const std::string& to, const std::string& from,
                           const TransferId& id) {
  std::promise<Status> answered;
  REQUIRE(cluster.PostTo(to, [&](PeerApi& api) {
    TransferInfo said;
    said.id = id;
    said.state = TransferState::kSucceeded;
    api.Report(from, said, [&](const Status& status) { answered.set_value(status); });
  }));
  const Status status = answered.get_future().get();
  return status.ok() ? Result<bool>(true) : Result<bool>(status);
}

}  // namespace

TEST_CASE("a source cannot make itself the decider of a transfer that another node decides") {
  EngineCluster cluster({"east", "west"});
  const Principal alice = cluster["east"].Attach();
  const Principal bob = cluster["west"].Attach();
  const auto to = cluster["east"].Register(alice, "a", kStolenBytes);
  const auto own = cluster["east"].Register(alice, "w", 4096);
  const auto from = cluster["west"].Register(bob, "b", kStolenBytes);
  REQUIRE_OK(to);
  REQUIRE_OK(own);
  REQUIRE_OK(from);
  Fill(from->data, kStolenBytes, 3);
  cluster.HoldCalls("Prepare");
  const auto started = cluster["east"].Start(alice, Request("west:b", "east:a"));
  REQUIRE_OK(started);
  {
    WildReader thief(cluster, "east", "west");
    const auto prepared = thief.Prepare("east:w", 1000, 4096, started->id);
    CHECK(prepared.status().reason() == reasons::kNameTaken);
    CHECK_FALSE(ReportSuccess(cluster, "east", "west", started->id).ok());
  }
  cluster.ReleaseCalls();
  const TransferInfo ended = cluster["east"].Wait(alice, started->id);
  CHECK(ended.state == TransferState::kSucceeded);
  CHECK(FirstWrong(to->data, kStolenBytes, 3) == kStolenBytes);
}

TEST_CASE("a node that another's order concerns cannot put its own ticket in its place") {
  EngineCluster cluster({"east", "west"});
  const Principal alice = cluster["east"].Attach();
  const Principal bob = cluster["west"].Attach();
  const auto from = cluster["east"].Register(alice, "a", kStolenBytes);
  const auto other = cluster["east"].Register(alice, "w", 4096);
  const auto to = cluster["west"].Register(bob, "b", kStolenBytes);
  REQUIRE_OK(from);
  REQUIRE_OK(other);
  REQUIRE_OK(to);
  Fill(from->data, kStolenBytes, 4);
  cluster.HoldCalls("Start");
  std::promise<Result<TransferInfo>> begun;
  TransferRequest request = Request("east:a", "west:b");
  cluster["east"].engine().loop().Post([&] {
    cluster["east"].engine().client().CreateTransfer(
        alice, request, {}, [&](Result<TransferInfo> info) { begun.set_value(std::move(info)); });
  });
  TransferId id;
  while (id.empty()) {
    const auto known = cluster["east"].Ask<Page<TransferInfo>>([&](ClientApi& api, auto reply) {
      api.ListTransfers(alice, {1000, {}}, std::move(reply));
    });
    REQUIRE_OK(known);
    if (!known->items.empty()) id = known->items.front().id;
  }
  {
    WildReader thief(cluster, "east", "west");
    CHECK(thief.Prepare("east:w", 1000, 4096, id).status().reason() == reasons::kNameTaken);
  }
  cluster.ReleaseCalls();
  REQUIRE_OK(begun.get_future().get());
  CHECK(cluster["east"].Wait(alice, id).state == TransferState::kSucceeded);
  CHECK(FirstWrong(to->data, kStolenBytes, 4) == kStolenBytes);
}

TEST_CASE("a transfer whose end comes after it was given up keeps nothing else from its turn") {
  EngineCluster cluster({"east", "west"}, [](const std::string& name, NodePlan& plan) {
    if (name == "east") plan.options.limits.transfers.each = 2;
  });
  const Principal alice = cluster["east"].Attach();
  const Principal bob = cluster["west"].Attach();
  REQUIRE_OK(cluster["east"].Register(alice, "a", 4096));
  REQUIRE_OK(cluster["west"].Register(bob, "b", 4096));
  cluster.HoldCalls("Report");
  cluster.HoldCalls("Query");
  TransferRequest request = Request("east:a", "west:b");
  request.deadline = std::chrono::milliseconds(500);
  const auto lost = cluster["east"].Start(alice, request);
  REQUIRE_OK(lost);
  CHECK(cluster["east"].Wait(alice, lost->id, TransferState::kUnconfirmed).state ==
        TransferState::kUnconfirmed);
  cluster.ReleaseCalls();
  CHECK(IsFinal(cluster["east"].Wait(alice, lost->id).state));
  // As many as there may be, and one more: it is refused, and the daemon goes on.
  cluster.HoldCalls("Prepare");
  request.deadline.reset();
  Status refused;
  for (int i = 0; i < 4 && refused.ok(); ++i) {
    refused = cluster["east"].Start(alice, request).status();
  }
  CHECK(refused.reason() == reasons::kQuota);
  cluster.ReleaseCalls();
  CHECK(cluster["east"].CreateBuffer(alice, "still-there", 4096).ok());
}

TEST_CASE("a peer cannot take the id that a ring's next transfer will have") {
  EngineCluster cluster({"east", "west"});
  const Principal alice = cluster["east"].Attach();
  const auto from = cluster["east"].Register(alice, "a", 4096);
  const auto to = cluster["east"].Register(alice, "b", 4096);
  REQUIRE_OK(from);
  REQUIRE_OK(to);
  RingOf ring(cluster["east"], alice);
  const auto route = ring.OpenRoute("a", "b");
  REQUIRE_OK(route);
  const uint64_t number = ring.Move(route->word, 0, 0, 1).number;
  {
    WildReader thief(cluster, "east", "west");
    const auto prepared = thief.Prepare("east:a", 1000, 4096, ring.IdOf(number + 1));
    CHECK(prepared.status().reason() == reasons::kBadArgument);
  }
  REQUIRE(ring.Move(route->word, 0, 0, 1).number == number + 1);
  const auto receipt = GetTransfer(cluster["east"], alice, ring.IdOf(number + 1));
  REQUIRE_OK(receipt);
  CHECK(receipt->state == TransferState::kSucceeded);
  CHECK(receipt->destination.buffer == "b");
}
