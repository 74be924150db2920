// Many peers: no probe that nobody needs, and none that is not understood.
#include <algorithm>
#include <atomic>

#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/fake_rdma.h"
#include "tests/unit/engine/hello_only_peer.h"
#include "transport/memory/host/factory.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace {

constexpr size_t kPeers = 64;

// What the peers were asked, all together and each.
struct Crowd {
  uint32_t newer = 0;  // by so many versions is their protocol newer than any of who asks
  std::atomic<size_t> hellos{0};
  std::atomic<size_t> probes{0};
  std::array<std::atomic<size_t>, kPeers> connects{};
};

// A node that introduces itself, with RDMA devices, and is good for nothing else.
class FakePeer final : public HelloOnlyPeer {
 public:
  FakePeer(std::string name, size_t number, Crowd& crowd)
      : name_(std::move(name)), number_(number), crowd_(crowd) {}

  void Hello(const std::string&, HelloRequest request, Reply<HelloReply> reply) override {
    ++crowd_.hellos;
    HelloReply answer;
    answer.self.node = name_;
    answer.self.boot_id = "boot";
    answer.self.protocol_min = answer.self.protocol_max = request.self.protocol_max + crowd_.newer;
    answer.self.generation = 1;
    NodeCapability can;
    can.node = name_;
    can.host = "host of " + name_;
    MemoryCapability host;
    host.kind = "host";
    host.cpu_addressable = true;
    can.memories = {host};
    LinkCapability tcp;
    tcp.name = "tcp";
    LinkCapability verbs;
    verbs.name = "verbs";
    verbs.rdma = true;
    NicCapability nic;
    nic.name = "nic0";
    nic.fabric = "fake";
    nic.memories = {{"host", {}, {}}};
    verbs.nics = {nic};
    can.links = {tcp, verbs};
    answer.self.capabilities = can;
    reply(std::move(answer));
  }
  void Connect(const std::string&, ConnectRequest, Reply<ConnectReply> reply) override {
    ++crowd_.connects[number_];
    reply(No());
  }
  void OpenProbe(const std::string&, OpenProbeRequest, Reply<OpenProbeReply> reply) override {
    ++crowd_.probes;
    reply(No());
  }

 private:
  const std::string name_;
  const size_t number_;
  Crowd& crowd_;
};

class CrowdDialer final : public PeerDialer {
 public:
  explicit CrowdDialer(Crowd& crowd) : crowd_(crowd) {}
  std::unique_ptr<PeerApi> Dial(const std::string& name, const std::string&) override {
    return std::make_unique<FakePeer>(name, std::stoul(name.substr(4)), crowd_);
  }

 private:
  Crowd& crowd_;
};

// One real engine in the crowd.
struct CrowdRig {
  explicit CrowdRig(uint32_t newer = 0) : dialer(crowd), nics(std::make_shared<FakeNics>()) {
    REQUIRE_OK(log::SetLevel("error"));
    crowd.newer = newer;
    Options options;
    options.node = "here";
    options.version = "test";
    options.heartbeat = std::chrono::milliseconds(10);
    options.probe_bytes = 64 << 10;
    options.probe_wait = std::chrono::minutes(1);
    options.probe_limit = std::chrono::minutes(1);
    options.set_log_level = [](const std::string&) { return std::string("info"); };
    for (size_t i = 0; i < kPeers; ++i) {
      options.peers.push_back({"peer" + std::to_string(i), "127.0.0.1:1", std::nullopt});
    }
    std::vector<std::unique_ptr<Memory>> memories;
    Backend<Memory> host = host::Describe();
    memories.push_back(std::move(*host.create({"here", Settings(host.settings), {}, {}})));
    std::vector<std::unique_ptr<Link>> links;
    links.push_back(MakeTcpLink("here"));
    links.push_back(MakeFakeRdma(MakeTcpLink("here"), 1, nics));
    engine =
        std::make_unique<Engine>(std::move(options), std::move(memories), std::move(links), dialer);
    engine->Start("127.0.0.1:1");
  }
  ~CrowdRig() { engine->Stop(); }

  template <typename T, typename F>
  Result<T> Ask(F call) {
    std::promise<Result<T>> promise;
    engine->loop().Post(
        [&] { call(Reply<T>([&](Result<T> result) { promise.set_value(std::move(result)); })); });
    return promise.get_future().get();
  }

  size_t connected() { return peers(NodeState::kConnected); }
  size_t peers(NodeState state) {
    const auto nodes = Ask<Page<NodeInfo>>([&](auto reply) {
      engine->client().ListNodes({}, {1000, {}}, std::move(reply));
    });
    REQUIRE_OK(nodes);
    return static_cast<size_t>(
        std::count_if(nodes->items.begin(), nodes->items.end(),
                      [state](const NodeInfo& node) { return !node.self && node.state == state; }));
  }
  size_t connects() const {
    size_t all = 0;
    for (const auto& of_one : crowd.connects) all += of_one;
    return all;
  }

  Crowd crowd;
  CrowdDialer dialer;
  std::shared_ptr<FakeNics> nics;
  std::unique_ptr<Engine> engine;
};

// Of 4096 bytes here, for uid 1000.
void CreateBuffer(CrowdRig& rig, const std::string& name) {
  REQUIRE_OK(rig.Ask<BufferInfo>([&](auto reply) {
    ClientIdentity identity;
    identity.uid = 1000;
    const auto session = rig.engine->sessions().Open(identity);
    CreateBufferRequest request;
    request.name = name;
    request.bytes = 4096;
    request.memory = "host";
    rig.engine->client().CreateBuffer(*rig.engine->sessions().Find(session->token), request,
                                      std::move(reply));
  }));
}

}  // namespace

TEST_CASE("64 peers are met without one probe, and one is probed when a transfer needs it") {
  CrowdRig rig;
  while (rig.connected() < kPeers) std::this_thread::yield();
  // A good while of heartbeats.
  const size_t seen = rig.crowd.hellos;
  while (rig.crowd.hellos < seen + 5 * kPeers) std::this_thread::yield();
  CHECK(rig.crowd.probes == 0);
  CHECK(rig.connects() == 0);
  CHECK(rig.nics->registered() == 0);

  CreateBuffer(rig, "b");
  const auto planned = rig.Ask<TransferInfo>([&](auto reply) {
    StartRequest request;
    request.id = TransferId("t");
    request.uid = 1000;
    request.administrator = true;
    request.reservation.source = {"peer7", "a", 0, 4096};
    request.reservation.memory = "host";
    request.asked.destination.buffer = "b";
    request.asked.validate_only = true;
    rig.engine->node().Start("here", request, std::move(reply));
  });
  REQUIRE_OK(planned);
  CHECK(planned->plan->path == "tcp-direct");
  for (size_t i = 0; i < kPeers; ++i) {
    CAPTURE(i);
    // Once for each link.
    CHECK(rig.crowd.connects[i] == (i == 7 ? 2 : 0));
  }
}

TEST_CASE("a peer without a protocol in common is shown as that, and asked for nothing") {
  CrowdRig rig(1);
  while (rig.peers(NodeState::kIncompatible) < kPeers) std::this_thread::yield();
  CHECK(rig.connected() == 0);
  const auto order = [&](const std::string& from, const std::string& to) {
    return rig.Ask<TransferInfo>([&](auto reply) {
      Principal who;
      who.uid = 1000;
      who.node = "here";
      rig.engine->client().CreateTransfer(who, Request(from, to), {}, std::move(reply));
    });
  };
  CHECK(order("peer7:a", "here:b").status().reason() == reasons::kPeerIncompatible);
  CreateBuffer(rig, "a");
  CHECK(order("here:a", "peer7:b").status().reason() == reasons::kPeerIncompatible);
}
