// A node with the most peers forgets none for which a transfer waits.
#include <atomic>

#include "onecopy/reasons.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/fake_rdma.h"
#include "tests/support/process.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;
using namespace std::chrono_literals;

namespace {

// West has room for one more peer beside east, and hides those that are silent for a moment.
struct CrowdedWest {
  static constexpr size_t kMostPeers = 4096;
  static constexpr uint64_t kBytes = uint64_t{16} << 20;

  std::shared_ptr<FakeNics> nics = std::make_shared<FakeNics>();  // of the node that reads
  EngineCluster cluster;
  EngineNode& east;
  EngineNode& west;
  const Principal alice;
  const Principal bob;

  explicit CrowdedWest(const std::string& reader)
      : cluster({"east", "west"},
                [this, &reader](const std::string& name, NodePlan& plan) {
                  plan.links.push_back(MakeFakeRdma(
                      MakeTcpLink(name), 1, name == reader ? nics : std::make_shared<FakeNics>()));
                  plan.options.slot_bytes = 512 << 10;
                  plan.options.uid_domain = "test";
                  for (PeerOptions& peer : plan.options.peers) peer.uid_domain = "test";
                  if (name != "west") return;
                  plan.options.silent_peer_stays = 100ms;
                  plan.options.reconnect_delay_min = 20ms;
                  plan.options.reconnect_delay_max = 1h;
                }),
        east(cluster["east"]),
        west(cluster["west"]),
        alice(east.Attach()),
        bob(west.Attach()) {
    REQUIRE_OK(east.CreateBuffer(alice, "b", kBytes));
    REQUIRE_OK(west.CreateBuffer(bob, "b", kBytes));
    std::vector<PeerOptions> peers = {{"*", "", "test"}};
    for (size_t i = 0; i < kMostPeers - 2; ++i) {
      const std::string name = "a" + std::to_string(i);
      peers.push_back({name, name + ":1", std::nullopt});
      peers.back().discovered = true;
    }
    west.engine().SetPeers(std::move(peers));
  }
  // The gets of a transfer after the first few fail.
  void LoseGets() {
    nics->Set([made = std::make_shared<std::atomic<int>>(0)](FakeNics::Hooks& hooks) {
      hooks.on_get = [made](const LaneInfo&) -> Status {
        if (made->fetch_add(1) < 16) return OkStatus();
        return {Code::kUnavailable, reasons::kLinkDown, "lost by the test"};
      };
    });
  }
  void MendGets() {
    nics->Set([](FakeNics::Hooks& hooks) { hooks.on_get = nullptr; });
  }
  // That node calls west.
  void Call(const std::string& node) {
    std::promise<Status> answered;
    west.engine().loop().Post([&] {
      HelloRequest request;
      request.self.node = node;
      request.self.boot_id = "1";
      request.self.protocol_min = request.self.protocol_max = 1;
      request.self.address = node + ":1";
      west.engine().node().Hello(node, std::move(request), [&](const Result<HelloReply>& reply) {
        answered.set_value(reply.status());
      });
    });
    REQUIRE_OK(answered.get_future().get());
  }
  void AwaitHidden(const std::string& node) {
    WaitUntil(node + " is hidden", [&] {
      return !west.Ask<NodeInfo>(
                      [&](ClientApi& api, auto reply) { api.GetNode(bob, node, std::move(reply)); })
                  .ok();
    });
  }
  // Why nothing can be read from that node now.
  std::string WhyNot(const std::string& node) {
    TransferRequest request = Request(node + ":b", "west:b");
    request.validate_only = true;
    return west.Start(bob, request).status().reason();
  }
};

}  // namespace

TEST_CASE("a peer for which a transfer waits is not forgotten for a new one") {
  const std::string reader = GENERATE("west", "east");
  CAPTURE(reader);
  CrowdedWest crowded(reader);
  crowded.LoseGets();
  TransferRequest request =
      reader == "west" ? Request("east:b", "west:b") : Request("west:b", "east:b");
  request.policy.path_glob = "rdma-staged";
  const auto started = crowded.west.Start(crowded.bob, request);
  REQUIRE_OK(started);
  WaitUntil("some has arrived, and no more comes", [&] {
    const auto info = GetTransfer(crowded.west, crowded.bob, started->id);
    REQUIRE_OK(info);
    return info->bytes_done > 0 && info->waits_for.find("to answer again") != std::string::npos;
  });
  crowded.cluster.Cut("east", "west");
  crowded.cluster.Cut("west", "east");
  crowded.AwaitHidden("east");
  crowded.Call("north");
  crowded.AwaitHidden("north");
  crowded.Call("south");
  CHECK(crowded.WhyNot("north") == reasons::kPeerNotFound);
  CHECK(crowded.WhyNot("east") == reasons::kPeerDown);
  crowded.MendGets();
  crowded.cluster.Mend("east", "west");
  crowded.cluster.Mend("west", "east");
  const TransferInfo ended = crowded.west.Wait(crowded.bob, started->id);
  INFO(ended.error.ToString());
  CHECK(ended.state == TransferState::kSucceeded);
}
