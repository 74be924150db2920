// Transfers that do not go well: what becomes of them, and of everything they used.
#include <algorithm>
#include <thread>

#include "onecopy/reasons.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/memory.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;
using namespace std::chrono_literals;

namespace {

// Large enough that it is still on its way when the test interferes; made of pages that nobody has
// touched.
constexpr uint64_t kLarge = 256 << 20;

// Small slots and one lane: a transfer that takes its time.
void Slow(const std::string&, NodePlan& plan) {
  plan.options.slot_bytes = 4096;
  plan.options.slots = 2;
  plan.options.stall_timeout = 300ms;
  plan.options.resume_for = 0ms;
}

Result<TransferInfo> Cancel(EngineNode& node, const Principal& who, const TransferId& id) {
  return node.Ask<TransferInfo>(
      [&](ClientApi& api, auto reply) { api.CancelTransfer(who, id, std::move(reply)); });
}

Status Delete(EngineNode& node, const Principal& who, const std::string& name, bool force) {
  return node
      .Ask<bool>([&](ClientApi& api, auto reply) {
        api.DeleteBuffer(who, "", name, force,
                         [reply = std::move(reply)](const Status& status) mutable {
                           if (status.ok()) return reply(true);
                           reply(status);
                         });
      })
      .status();
}

// Nothing uses the buffer any more, so it can be removed without force.
void CheckFree(EngineNode& node, const Principal& who, const std::string& name) {
  const Status removed = Delete(node, who, name, false);
  INFO(name << ": " << removed.ToString());
  CHECK(removed.ok());
}

TransferRequest Staged() {
  TransferRequest request = Request("east:a", "west:b");
  request.policy.path_glob = "tcp-staged";
  return request;
}

struct Pair {
  explicit Pair(const std::function<void(const std::string&, NodePlan&)>& change = Slow,
                uint64_t bytes = kLarge)
      : cluster({"east", "west"}, change),
        east(cluster["east"]),
        west(cluster["west"]),
        alice(east.Attach()),
        bob(west.Attach()) {
    REQUIRE_OK(east.CreateBuffer(alice, "a", bytes));
    REQUIRE_OK(west.CreateBuffer(bob, "b", bytes));
  }
  // A staged transfer that is moving.
  TransferId StartMoving(EngineNode& node, const Principal& who) {
    auto started = node.Start(who, Staged());
    REQUIRE_OK(started);
    const TransferInfo moving = node.Wait(who, started->id, TransferState::kRunning);
    INFO(moving.error.ToString());
    REQUIRE(moving.state == TransferState::kRunning);
    return started->id;
  }

  EngineCluster cluster;
  EngineNode& east;
  EngineNode& west;
  Principal alice;
  Principal bob;
};

}  // namespace

TEST_CASE("a transfer is cancelled from either end, and both ends let go") {
  const std::string by = GENERATE("source", "destination");
  CAPTURE(by);
  Pair pair;
  EngineNode& node = by == "source" ? pair.east : pair.west;
  const Principal& who = by == "source" ? pair.alice : pair.bob;
  const TransferId id = pair.StartMoving(node, who);
  REQUIRE_OK(Cancel(node, who, id));
  const TransferInfo seen = node.Wait(who, id);
  CHECK(seen.state == TransferState::kCancelled);
  CHECK(seen.bytes_done < kLarge);
  CHECK(seen.error.reason() == reasons::kCancelled);
  CHECK(pair.east.Wait(pair.alice, id).state == TransferState::kCancelled);
  CHECK(pair.west.Wait(pair.bob, id).state == TransferState::kCancelled);
  CheckFree(pair.east, pair.alice, "a");
  CheckFree(pair.west, pair.bob, "b");
  // Once more is no error.
  CHECK(Cancel(node, who, id)->state == TransferState::kCancelled);
}

TEST_CASE("a buffer in use is not removed, unless it is forced") {
  Pair pair;
  const std::string which = GENERATE("source", "destination");
  EngineNode& node = which == "source" ? pair.east : pair.west;
  const Principal& who = which == "source" ? pair.alice : pair.bob;
  const std::string name = which == "source" ? "a" : "b";
  const TransferId id = pair.StartMoving(pair.west, pair.bob);
  const Status refused = Delete(node, who, name, false);
  CHECK(refused.reason() == reasons::kBufferInUse);
  CHECK(refused.message().find(id.str()) != std::string::npos);
  REQUIRE_OK(Delete(node, who, name, true));
  const TransferInfo ended = pair.west.Wait(pair.bob, id);
  CHECK(ended.state == TransferState::kCancelled);
  CHECK(ended.error.message().find("was removed by") != std::string::npos);
}

TEST_CASE("a source that is removed before a byte has moved is told as that") {
  Pair pair;
  const Status removed(Code::kCancelled, reasons::kCancelled, "buffer east/a was removed by 7");
  pair.cluster.FailCalls("Prepare", removed);
  const auto started = pair.west.Start(pair.bob, Staged());
  REQUIRE_OK(started);
  const TransferInfo ended = pair.west.Wait(pair.bob, started->id);
  CHECK(ended.state == TransferState::kCancelled);
  CHECK(ended.error.reason() == reasons::kCancelled);
  CHECK(ended.error.message() == removed.message());
}

TEST_CASE("when a client goes, its memory goes after the transfers that use it") {
  Pair pair;
  const std::string which = GENERATE("source", "destination");
  CAPTURE(which);
  const Principal client = which == "source" ? pair.east.Attach() : pair.west.Attach();
  EngineNode& node = which == "source" ? pair.east : pair.west;
  auto registered = node.Register(client, "mine", kLarge);
  REQUIRE_OK(registered);
  TransferRequest request =
      which == "source" ? Request("east:mine", "west:b") : Request("east:a", "west:mine");
  request.policy.path_glob = "tcp-staged";
  auto started = pair.west.Start(pair.bob, request);
  REQUIRE_OK(started);
  pair.west.Wait(pair.bob, started->id, TransferState::kRunning);
  node.Detach(client);
  const TransferInfo ended = pair.west.Wait(pair.bob, started->id);
  CHECK(ended.state == TransferState::kFailed);
  CHECK(ended.error.reason() == reasons::kOwnerDied);
  CHECK(ended.error.code() == Code::kAborted);
  // The name is free again once everything has let go.
  const Principal next = node.Attach();
  while (!node.Register(next, "mine", 4096).ok()) std::this_thread::yield();
}

TEST_CASE("a deadline ends a transfer on both nodes") {
  Pair pair;
  TransferRequest request = Staged();
  request.deadline = 100ms;
  auto copied = pair.east.Copy(pair.alice, request);
  REQUIRE_OK(copied);
  CHECK(copied->state == TransferState::kFailed);
  CHECK(copied->error.code() == Code::kDeadlineExceeded);
  CHECK(copied->error.reason() == reasons::kDeadline);
  CheckFree(pair.east, pair.alice, "a");
  CheckFree(pair.west, pair.bob, "b");
}

TEST_CASE(
    "a destination that stops tells how its transfer ended, once what it told before is heard") {
  Pair pair;
  pair.cluster.HoldCalls("Report");
  const TransferId id = pair.StartMoving(pair.west, pair.bob);
  const size_t finished = pair.cluster.calls("Finish");
  std::thread stopper([&] { pair.cluster.Remove("west"); });
  while (pair.cluster.calls("Finish") == finished) std::this_thread::yield();
  pair.cluster.ReleaseCalls();
  stopper.join();
  const TransferInfo ended = pair.east.Wait(pair.alice, id, TransferState::kUnconfirmed);
  CHECK(ended.state == TransferState::kFailed);
  CHECK(ended.error.reason() == reasons::kDraining);
}

TEST_CASE("a source that is lost ends the transfer at the destination; back again it learns so") {
  Pair pair;
  const TransferId id = pair.StartMoving(pair.west, pair.bob);
  pair.cluster.Cut("west", "east");
  pair.cluster.Cut("east", "west");
  pair.cluster.Remove("east");
  const TransferInfo ended = pair.west.Wait(pair.bob, id);
  CHECK(ended.state == TransferState::kFailed);
  CHECK(ended.error.code() == Code::kUnavailable);
  CheckFree(pair.west, pair.bob, "b");
}

TEST_CASE(
    "a source that cannot learn the outcome shows it as unconfirmed until the two meet again") {
  Pair pair(Slow, 1 << 20);
  // The bytes arrive, and nobody can say so.
  pair.cluster.FailCalls("Report");
  pair.cluster.FailCalls("Query");
  auto started = pair.east.Start(pair.alice, Staged());
  REQUIRE_OK(started);
  CHECK(pair.west.Wait(pair.bob, started->id).state == TransferState::kSucceeded);
  pair.cluster.Cut("east", "west");
  pair.cluster.Cut("west", "east");
  const TransferInfo unconfirmed =
      pair.east.Wait(pair.alice, started->id, TransferState::kUnconfirmed);
  REQUIRE(unconfirmed.state == TransferState::kUnconfirmed);
  CHECK(unconfirmed.error.reason() == reasons::kUnconfirmed);
  CHECK(unconfirmed.error.code() == Code::kDeadlineExceeded);
  pair.cluster.AllowCalls("Report");
  pair.cluster.AllowCalls("Query");
  pair.cluster.Mend("east", "west");
  pair.cluster.Mend("west", "east");
  const TransferInfo learnt = pair.east.Wait(pair.alice, started->id);
  CHECK(learnt.state == TransferState::kSucceeded);
  CHECK(learnt.error.ok());
  CHECK(learnt.receipt.steps.size() == 5);
  CHECK(learnt.role == TransferRole::kSource);
}

TEST_CASE(
    "an outcome whose report got lost is asked for, although the nodes never lost each other") {
  EngineCluster cluster({"east", "west", "north"},
                        [](const std::string&, NodePlan& plan) { plan.options.heartbeat = 50ms; });
  const Principal alice = cluster["east"].Attach();
  const Principal bob = cluster["west"].Attach();
  const Principal carol = cluster["north"].Attach();
  REQUIRE_OK(cluster["east"].CreateBuffer(alice, "a", 1 << 20));
  REQUIRE_OK(cluster["west"].CreateBuffer(bob, "b", 1 << 20));
  cluster.FailCalls("Report");
  auto started = cluster["north"].Start(carol, Staged());
  REQUIRE_OK(started);
  CHECK(cluster["west"].Wait(bob, started->id).state == TransferState::kSucceeded);
  for (const char* node : {"north", "east"}) {
    INFO(node);
    const TransferInfo learnt = cluster[node].Wait(carol, started->id);
    CHECK(learnt.state == TransferState::kSucceeded);
    CHECK(learnt.receipt.steps.size() == 5);
  }
}

TEST_CASE("a source shows unconfirmed at the transfer's own deadline") {
  Pair pair(
      [](const std::string& name, NodePlan& plan) {
        Slow(name, plan);
        plan.options.stall_timeout = 1h;
      },
      1 << 20);
  pair.cluster.FailCalls("Report");
  pair.cluster.FailCalls("Query");
  TransferRequest request = Staged();
  request.deadline = 2s;
  auto started = pair.east.Start(pair.alice, request);
  REQUIRE_OK(started);
  CHECK(pair.west.Wait(pair.bob, started->id).state == TransferState::kSucceeded);
  CHECK(pair.east.Wait(pair.alice, started->id, TransferState::kUnconfirmed).state ==
        TransferState::kUnconfirmed);
}

TEST_CASE("a destination that has restarted has forgotten the transfer, which has failed then") {
  Pair pair;
  pair.cluster.FailCalls("Report");
  const TransferId id = pair.StartMoving(pair.east, pair.alice);
  pair.cluster.Restart("west");
  const TransferInfo ended = pair.east.Wait(pair.alice, id);
  CHECK(ended.state == TransferState::kFailed);
  CHECK(ended.error.reason() == reasons::kPeerRestarted);
  CHECK(ended.error.code() == Code::kAborted);
  CheckFree(pair.east, pair.alice, "a");
}

TEST_CASE("a transfer that is given up while its source is being read leaves the source free") {
  Pair pair;
  // The destination reads the source before it is known to have begun, and is not done in time.
  pair.cluster.HoldAnswers("Start");
  pair.cluster.HoldCalls("Finish");
  // Where the machine stands still, the deadline may pass before that: then once more.
  for (auto deadline = 500ms; pair.cluster.calls("Prepare") == 0; deadline *= 2) {
    TransferRequest request = Staged();
    request.deadline = deadline;
    CHECK(pair.east.Start(pair.alice, request).status().reason() == reasons::kDeadline);
  }
  while (!Delete(pair.east, pair.alice, "a", false).ok()) std::this_thread::yield();
  pair.cluster.ReleaseCalls();
}

TEST_CASE("who ordered a transfer between two others learns of its success from the source, too") {
  EngineCluster cluster({"east", "west", "north"}, Slow);
  const Principal alice = cluster["east"].Attach();
  const Principal bob = cluster["west"].Attach();
  const Principal carol = cluster["north"].Attach();
  REQUIRE_OK(cluster["east"].CreateBuffer(alice, "a", 1 << 20));
  REQUIRE_OK(cluster["west"].CreateBuffer(bob, "b", 1 << 20));
  const auto started = cluster["north"].Start(carol, Staged());
  REQUIRE_OK(started);
  const auto known = [&] {
    return cluster["east"].Ask<TransferInfo>(
        [&](ClientApi& api, auto reply) { api.GetTransfer(alice, started->id, std::move(reply)); });
  };
  while (!known().ok()) std::this_thread::yield();
  cluster.Cut("west", "north");
  cluster.Cut("north", "west");
  REQUIRE(cluster["east"].Wait(alice, started->id).state == TransferState::kSucceeded);
  cluster.Restart("west");
  cluster.Mend("west", "north");
  cluster.Mend("north", "west");
  const TransferInfo learnt = cluster["north"].Wait(carol, started->id, TransferState::kSucceeded);
  INFO(learnt.error.ToString());
  CHECK(learnt.state == TransferState::kSucceeded);
  CHECK(learnt.role == TransferRole::kInitiator);
  CHECK(learnt.receipt.steps.size() == 5);
}

TEST_CASE("bytes that have arrived are a success though the source does not answer any more") {
  Pair pair(Slow, 1 << 20);
  pair.cluster.FailCalls("Finish");
  auto copied = pair.west.Copy(pair.bob, Staged());
  REQUIRE_OK(copied);
  CHECK(copied->state == TransferState::kSucceeded);
  CHECK(copied->receipt.steps.size() == 5);
  CHECK(copied->receipt.evidence.contains("source steps"));
  // With a checksum asked for, it cannot be one.
  TransferRequest request = Staged();
  request.checksum = true;
  auto unverified = pair.west.Copy(pair.bob, request);
  REQUIRE_OK(unverified);
  CHECK(unverified->state == TransferState::kFailed);
  CHECK(unverified->error.code() == Code::kUnavailable);
}

TEST_CASE("bytes that have arrived are proven once the source answers again") {
  Pair pair(Slow, 3 << 20);
  pair.cluster.FailCalls("Finish");
  TransferRequest request = Staged();
  request.checksum = true;
  const auto started = pair.west.Start(pair.bob, request);
  REQUIRE_OK(started);
  while (pair.cluster.calls("Prepare") < 2) std::this_thread::yield();  // it has begun again
  pair.cluster.AllowCalls("Finish");
  const TransferInfo proven = pair.west.Wait(pair.bob, started->id);
  INFO(proven.error.ToString());
  CHECK(proven.state == TransferState::kSucceeded);
  CHECK(proven.receipt.attempts.size() > 1);
  REQUIRE(proven.receipt.checksum.has_value());
  CHECK(proven.receipt.checksum->verified);
}

TEST_CASE("many transfers at once share few slots, in both directions, without waiting for ever") {
  EngineCluster cluster({"east", "west"}, [](const std::string&, NodePlan& plan) {
    plan.options.slot_bytes = 4096;
    plan.options.slots = 4;
  });
  const Principal alice = cluster["east"].Attach();
  const Principal bob = cluster["west"].Attach();
  constexpr uint64_t kBytes = 50'000;
  constexpr int kTransfers = 100;
  auto a = cluster["east"].Register(alice, "a", kBytes);
  auto b = cluster["west"].Register(bob, "b", kBytes);
  REQUIRE_OK(a);
  REQUIRE_OK(b);
  Fill(a->data, kBytes, 1);
  Fill(b->data, kBytes, 2);
  REQUIRE_OK(cluster["east"].CreateBuffer(alice, "from-west", kBytes * kTransfers));
  REQUIRE_OK(cluster["west"].CreateBuffer(bob, "from-east", kBytes * kTransfers));
  std::vector<TransferId> ids;
  for (int i = 0; i < kTransfers; ++i) {
    const std::string at = "@" + std::to_string(kBytes * static_cast<uint64_t>(i));
    TransferRequest request = i % 2 == 0 ? Request("east:a", "west:from-east" + at)
                                         : Request("west:b", "east:from-west" + at);
    request.policy.path_glob = "tcp-staged";
    auto started = cluster["east"].Start(alice, request);
    REQUIRE_OK(started);
    ids.push_back(started->id);
  }
  for (const TransferId& id : ids) {
    const TransferInfo ended = cluster["east"].Wait(alice, id);
    INFO(ended.error.ToString());
    REQUIRE(ended.state == TransferState::kSucceeded);
  }
  CheckFree(cluster["east"], alice, "a");
  CheckFree(cluster["west"], bob, "from-east");
}

TEST_CASE("a node that drains takes nothing new, and waits for what is under way") {
  Pair pair;
  const TransferId id = pair.StartMoving(pair.west, pair.bob);
  std::promise<void> drained;
  pair.west.engine().Drain([&] { drained.set_value(); });
  auto refused = pair.west.Start(pair.bob, Staged());
  CHECK(refused.status().reason() == reasons::kDraining);
  CHECK(pair.east.Start(pair.alice, Staged()).status().reason() == reasons::kDraining);
  auto done = drained.get_future();
  CHECK(done.wait_for(0s) == std::future_status::timeout);
  REQUIRE_OK(Cancel(pair.west, pair.bob, id));
  done.wait();
}
