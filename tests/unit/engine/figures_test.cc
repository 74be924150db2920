// What an engine says of itself in numbers, held against what was done with it.
#include <future>

#include "onecopy/reasons.h"
#include "tests/unit/engine/ring_of.h"

using namespace onecopy;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kBytes = 64 << 10;

Figures FiguresOf(EngineNode& node) {
  std::promise<Figures> promise;
  node.engine().ReadFigures([&](Figures figures) { promise.set_value(std::move(figures)); });
  return promise.get_future().get();
}

Figures StatusOf(EngineNode& node) {
  std::promise<Figures> promise;
  node.engine().ReadStatus([&](Figures figures) { promise.set_value(std::move(figures)); });
  return promise.get_future().get();
}

uint64_t EndedAs(const Figures& figures, const std::string& reason) {
  uint64_t count = 0;
  for (const auto& [key, one] : figures.transfers.ended) count += key.reason == reason ? one : 0;
  return count;
}

Status Delete(EngineNode& node, const Principal& who, const std::string& name) {
  const auto done = node.Ask<bool>([&](ClientApi& api, auto reply) {
    api.DeleteBuffer(who, "", name, true, [reply = std::move(reply)](const Status& status) mutable {
      status.ok() ? reply(true) : reply(status);
    });
  });
  return done.status();
}

const QuotaFigures& QuotaOf(const Figures& figures, const std::string& what) {
  for (const QuotaFigures& quota : figures.quotas) {
    if (quota.what == what) return quota;
  }
  throw std::runtime_error("no quota of " + what);
}

}  // namespace

TEST_CASE("what a ring carried and what it refused is counted once, and stays when it goes") {
  EngineCluster cluster({"east"});
  EngineNode& node = cluster["east"];
  const Principal who = node.Attach();
  REQUIRE_OK(node.CreateBuffer(who, "a", kBytes));
  REQUIRE_OK(node.CreateBuffer(who, "b", kBytes));
  {
    RingOf ring(node, who);
    const auto route = ring.OpenRoute("east:a", "east:b");
    REQUIRE_OK(route);
    for (int i = 0; i < 3; ++i) CHECK(ring.Move(route->word, 0, 0, 4096).code == Code::kOk);
    for (int i = 0; i < 2; ++i) {
      CHECK(ring.Move(route->word, kBytes, 0, 1).code == Code::kOutOfRange);
    }
    CHECK(ring.Move(12345, 0, 0, 1).code == Code::kInvalidArgument);
    Figures figures = FiguresOf(node);
    CHECK(EndedAs(figures, "") == 3);
    CHECK(EndedAs(figures, std::string(reasons::kRangeOutOfBuffer)) == 2);
    CHECK(EndedAs(figures, std::string(reasons::kBadArgument)) == 1);
    CHECK(figures.transfers.bytes.at({"local", "", "", Direction::kInside}) == 3 * 4096);
    CHECK(figures.transfers.durations.at("local").count() == 3);
    CHECK(figures.transfers.copies.at(1).transfers == 3);
    CHECK(figures.rings == 1);
    CHECK(figures.ring_routes == 1);

    REQUIRE_OK(Delete(node, who, "b"));
    CHECK(ring.Move(route->word, 0, 0, 1).reason == std::string(reasons::kBufferNotFound));
    // A receipt makes a record of it, which is not counted once more.
    REQUIRE_OK(GetTransfer(node, who, ring.IdOf(0)));
    figures = FiguresOf(node);
    CHECK(EndedAs(figures, "") == 3);
    CHECK(figures.ring_routes == 0);
  }
  node.Detach(who);
  Figures figures;
  do {  // nobody is told when a session's end is through
    figures = FiguresOf(node);
  } while (figures.rings > 0);
  CHECK(EndedAs(figures, "") == 3);
  CHECK(EndedAs(figures, std::string(reasons::kRangeOutOfBuffer)) == 2);
  CHECK(EndedAs(figures, std::string(reasons::kBufferNotFound)) == 1);
}

TEST_CASE("buffers are counted as they come and go") {
  EngineCluster cluster({"east"});
  EngineNode& node = cluster["east"];
  const Principal who = node.Attach();
  REQUIRE_OK(node.CreateBuffer(who, "a", kBytes));
  REQUIRE_OK(node.CreateBuffer(who, "b", kBytes));
  REQUIRE_OK(node.Register(who, "c", 4096));
  const BufferKey created{"host", "", false};
  const BufferKey registered{"host", "", true};
  BufferFigures buffers = FiguresOf(node).buffers;
  CHECK(buffers.buffers.at(created).transfers == 2);
  CHECK(buffers.buffers.at(created).bytes == 2 * kBytes);
  CHECK(buffers.buffers.at(registered).bytes == 4096);
  ViewRequest view;
  view.name = "v";
  view.range = ParseEnd("east:a@0+16");
  const auto made = node.Ask<std::vector<BufferInfo>>(
      [&](ClientApi& api, auto reply) { api.CreateViews(who, {view}, std::move(reply)); });
  REQUIRE_OK(made);
  CHECK(FiguresOf(node).buffers.views == 1);
  CHECK(FiguresOf(node).buffers.buffers.at(created).transfers == 2);
  for (const char* name : {"a", "b", "c"}) REQUIRE_OK(Delete(node, who, name));
  buffers = FiguresOf(node).buffers;
  CHECK(buffers.buffers.empty());
  CHECK(buffers.views == 0);
}

TEST_CASE("quotas say what is used, of how much, and what was refused") {
  EngineCluster cluster({"east"}, [](const std::string&, NodePlan& plan) {
    plan.options.limits.buffers = {2, 10};
    plan.options.limits.reserved_percent = 0;
  });
  EngineNode& node = cluster["east"];
  const Principal who = node.Attach();
  for (const char* name : {"a", "b", "c", "d"}) (void)node.CreateBuffer(who, name, 4096);
  const Figures figures = FiguresOf(node);
  CHECK(QuotaOf(figures, "buffers").used == 2);
  CHECK(QuotaOf(figures, "buffers").limit == 10);
  CHECK(QuotaOf(figures, "buffers").refused == 2);
  CHECK(QuotaOf(figures, "sessions").used == 1);
  CHECK(QuotaOf(figures, "memory").used > 0);
}

TEST_CASE("slots that are used and waited for are counted, and who waited how long") {
  EngineCluster cluster({"east", "west"}, [](const std::string&, NodePlan& plan) {
    plan.options.slots = 2;
    plan.options.slot_bytes = 4096;
  });
  cluster.WaitForPeer("east", "west", NodeState::kConnected);
  EngineNode& east = cluster["east"];
  EngineNode& west = cluster["west"];
  const Principal alice = east.Attach();
  const Principal bob = west.Attach();
  REQUIRE_OK(east.Register(alice, "a", kBytes));
  REQUIRE_OK(west.CreateBuffer(bob, "b", kBytes));
  TransferRequest request = Request("east:a", "west:b");
  request.policy.path_glob = "tcp-staged";
  const auto copied = west.Copy(bob, request);
  REQUIRE_OK(copied);
  REQUIRE(copied->state == TransferState::kSucceeded);
  // The sender hears of the end a moment later.
  CHECK(east.Wait(alice, copied->id).state == TransferState::kSucceeded);
  const Figures sent = FiguresOf(east);
  const Figures received = FiguresOf(west);
  CHECK(sent.send_slots.slots == 1);
  CHECK(sent.send_slots.given > 0);
  CHECK(sent.send_slots.waits.count() > 0);
  CHECK(received.receive_slots.given > 0);
  CHECK(sent.receive_slots.given == 0);
  CHECK(received.transfers.bytes.at({"tcp-staged", "tcp", "east", Direction::kIn}) == kBytes);
  CHECK(sent.transfers.bytes.at({"tcp-staged", "tcp", "west", Direction::kOut}) == kBytes);
  CHECK(received.peers.by_state.at(NodeState::kConnected) == 1);
  REQUIRE(received.peers.peers.size() == 1);
  CHECK(received.peers.peers[0].name == "east");
  CHECK(received.peers.peers[0].connected);
}

TEST_CASE("the status has the way from each connected node, as a plan of the same has it") {
  EngineCluster cluster({"east", "north", "west"});
  EngineNode& node = cluster["east"];
  const Principal who = node.Attach();
  REQUIRE_OK(node.CreateBuffer(who, "to", kBytes));
  REQUIRE_OK(cluster["west"].CreateBuffer(cluster["west"].Attach(), "from", kBytes));
  cluster.Cut("east", "north");
  cluster.WaitForPeer("east", "north", NodeState::kDisconnected);
  const Figures figures = StatusOf(node);
  REQUIRE(figures.status);
  const std::vector<NodeWays>& ways = figures.status->ways;
  REQUIRE(ways.size() == 2);
  CHECK(ways[0].node == "east");
  REQUIRE(ways[0].ways.size() == 1);
  CHECK(ways[0].ways[0].path == "local");
  CHECK(ways[0].ways[0].copies == 1);
  CHECK(ways[0].ways[0].better.empty());
  CHECK(ways[1].node == "west");
  REQUIRE(ways[1].ways.size() == 1);
  const WayFigures& way = ways[1].ways[0];
  TransferRequest request = Request("west:from", "east:to");
  request.validate_only = true;
  const auto planned = node.Start(who, request);
  REQUIRE_OK(planned);
  CHECK(way.from == "host");
  CHECK(way.path == planned->plan->path);
  CHECK(way.link == "tcp");
  CHECK(way.copies == planned->plan->copies());
  CHECK(way.bytes_per_second > 0);
  REQUIRE_FALSE(way.better.empty());
  CHECK(way.better.size() <= kMaxBetterShown);
  CHECK(way.better[0].path == "rdma-direct");
  // What does not apply between nodes is not better.
  for (const Refusal& refusal : way.better) CHECK(refusal.path.starts_with("rdma-"));
  // Metrics do not pay for this.
  CHECK_FALSE(FiguresOf(node).status);
  const PeersFigures& peers = figures.peers;
  REQUIRE(peers.peers.size() == 2);
  CHECK(peers.peers[0].state == NodeState::kDisconnected);
  CHECK_FALSE(peers.peers[0].detail.empty());
  CHECK(peers.peers[1].state == NodeState::kConnected);
}

TEST_CASE("the status counts what runs by path and peer until it has ended") {
  EngineCluster cluster({"east", "west"});
  EngineNode& node = cluster["east"];
  const Principal who = node.Attach();
  REQUIRE_OK(node.CreateBuffer(who, "to", kBytes));
  REQUIRE_OK(cluster["west"].CreateBuffer(cluster["west"].Attach(), "from", kBytes));
  cluster.HoldCalls("Prepare");
  const auto started = node.Start(who, Request("west:from", "east:to"));
  REQUIRE_OK(started);
  const auto running = StatusOf(node).status->running;
  REQUIRE(running.size() == 1);
  const auto& [key, amount] = *running.begin();
  CHECK(key.peer == "west");
  CHECK(key.direction == Direction::kIn);
  CHECK(key.path == "tcp-direct");
  CHECK(amount.transfers == 1);
  CHECK(amount.bytes == 0);
  cluster.ReleaseCalls();
  node.Wait(who, started->id);
  const Figures ended = StatusOf(node);
  CHECK(ended.status->running.empty());
  CHECK(ended.transfers.bytes.at(key) == kBytes);
}
