// What ends the routes of rings between nodes, whichever node has the ring.
#include <thread>

#include "onecopy/reasons.h"
#include "tests/support/fake_rdma.h"
#include "tests/support/memory.h"
#include "tests/unit/engine/between.h"

using namespace onecopy;
using namespace onecopy::testing;

namespace {

// A ring at either end, with a route from east to west that has carried a byte.
struct Routed : Between {
  const bool at_west;
  const std::string here = at_west ? "west" : "east";
  const std::string there = at_west ? "east" : "west";
  RingOf ring{cluster[here], at_west ? in_west : in_east};
  uint64_t word = 0;

  explicit Routed(const std::function<void(const std::string&, NodePlan&)>& change = {})
      : Between(1000, change), at_west(GENERATE(true, false)) {
    const auto route = Open();
    REQUIRE_OK(route);
    word = route->word;
    REQUIRE(Move().code == Code::kOk);
  }
  Result<RingRoute> Open() { return ring.OpenRoute("east:a", "west:b"); }
  ring::Ended Move() { return ring.Move(word, 0, 0, 1); }
};

}  // namespace

TEST_CASE("buffers at both ends of a route between nodes are let go before they are gone") {
  Routed with;
  const bool source = GENERATE(true, false);
  EngineNode& node = source ? with.east : with.west;
  const Principal& owner = source ? with.in_east : with.in_west;
  const bool by_ring = source != with.at_west;  // of the session whose ring it is
  SECTION("removed") {
    REQUIRE_OK(Between::In(node, [&](ClientApi& api, StatusReply reply) {
      api.DeleteBuffer(owner, "", source ? "a" : "b", false, std::move(reply));
    }));
    CheckOver(with.Move());
    CheckOver(with.Move());  // the whole route is given up with that
    CHECK(with.Open().status().reason() == reasons::kBufferNotFound);
    while (by_ring && with.cluster.calls("CloseOpening") == 0) std::this_thread::yield();
    if (by_ring && with.at_west) CHECK(with.cluster.calls("CloseOpening") == 1);  // else both ways
  }
  SECTION("with the client that has them, at the other node") {
    if (by_ring) return;  // its ring would go, too
    node.Detach(owner);
    while (with.Move().code == Code::kOk) {  // nobody is told when a session's end is through
    }
    CheckOver(with.Move());
  }
}

TEST_CASE("a node that goes, or is going, ends the routes from it and to it") {
  Routed with;
  SECTION("drained") {
    std::promise<void> drained;
    with.cluster[with.there].engine().Drain([&] { drained.set_value(); });
    drained.get_future().wait();
    CheckOver(with.Move());
    CHECK(with.Open().status().reason() == reasons::kDraining);
  }
  SECTION("gone") {
    with.cluster.Remove(with.there);
    CheckOver(with.Move());
  }
  SECTION("back again, as another") {
    with.cluster.Restart(with.there);
    CheckOver(with.Move());
    with.cluster.WaitForPeer(with.here, with.there, NodeState::kConnected);
    CHECK(with.Open().status().reason() == reasons::kBufferNotFound);
  }
  SECTION("out of reach") {
    with.cluster.Cut("west", "east");
    with.cluster.Cut("east", "west");
    with.cluster.WaitForPeer(with.here, with.there, NodeState::kDisconnected);
    const ring::Ended ended = with.Move();
    // A destination's node that noticed first has told a ring at the source that it ended the way.
    if (!with.at_west && ended.code == Code::kAborted) {
      CHECK(std::string(ended.reason) == reasons::kCancelled);
    } else {
      CHECK(ended.code == Code::kUnavailable);
      CHECK(std::string(ended.reason) == reasons::kPeerDown);
    }
  }
}

TEST_CASE("a get that fails ends its route, and what comes after it") {
  auto reader = std::make_shared<FakeNics>();
  auto owner = std::make_shared<FakeNics>();
  Routed with([&](const std::string& name, NodePlan& plan) {
    plan.links.clear();
    plan.links.push_back(MakeFakeRdma(MakeTcpLink(name), 1, name == "west" ? reader : owner));
  });
  const auto done = with.cluster[with.here].Ask<TransferInfo>([&](ClientApi& api, auto reply) {
    api.GetTransfer(with.at_west ? with.in_west : with.in_east, with.ring.IdOf(0),
                    std::move(reply));
  });
  REQUIRE_OK(done);
  CHECK(done->receipt.path == "rdma-direct");
  CHECK(done->receipt.registration == "host");
  CHECK(done->receipt.key == "lease");
  reader->Set([](FakeNics::Hooks& hooks) {
    hooks.on_get = [](const LaneInfo&) {
      return Status(Code::kUnavailable, reasons::kLinkDown, "a cable was pulled");
    };
  });
  const ring::Ended first = with.Move();
  CHECK(first.code == Code::kUnavailable);
  CHECK(std::string(first.reason) == reasons::kLinkDown);
  reader->Set([](FakeNics::Hooks& hooks) { hooks.on_get = nullptr; });
  CHECK(with.Move().code == Code::kUnavailable);
  REQUIRE_OK(with.Open());
}
