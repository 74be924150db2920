// Where a peer is dialled, of the addresses that discovery and the peer itself name.
#include <map>

#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/process.h"
#include "tests/unit/engine/hello_only_peer.h"
#include "transport/core/base/mutex.h"
#include "transport/memory/host/factory.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace {

constexpr char kFound[] = "10.0.0.2:7701";    // where discovery says that west is
constexpr char kSaid[] = "192.168.0.2:7701";  // where west says that it is

// What is at each address. Any thread.
class Network {
 public:
  // A node; nothing is there before, and after Down.
  void Up(const std::string& address, const std::string& node, const std::string& boot_id) {
    const MutexLock lock(mutex_);
    places_[address] = {node, boot_id, 0};
  }
  void Down(const std::string& address) {
    const MutexLock lock(mutex_);
    places_.erase(address);
  }
  // Its next answer does not come in time.
  void BeLate(const std::string& address) {
    const MutexLock lock(mutex_);
    ++places_.at(address).late;
  }
  // Greetings there wait for Release.
  void Hold(const std::string& address) {
    const MutexLock lock(mutex_);
    held_at_ = address;
  }
  std::vector<Task> Release() {
    const MutexLock lock(mutex_);
    held_at_.clear();
    return std::exchange(held_, {});
  }
  bool Holds(const std::string& address, Task& answer) {
    const MutexLock lock(mutex_);
    if (held_at_ != address) return false;
    held_.push_back(std::move(answer));
    return true;
  }
  bool holding() const {
    const MutexLock lock(mutex_);
    return !held_.empty();
  }
  size_t asked(const std::string& address) const {
    const MutexLock lock(mutex_);
    const auto found = asked_.find(address);
    return found == asked_.end() ? 0 : found->second;
  }
  Result<HelloReply> Hello(const std::string& address, const HelloRequest& request) {
    const MutexLock lock(mutex_);
    ++asked_[address];
    const auto found = places_.find(address);
    if (found == places_.end()) {
      return Status(Code::kUnavailable, reasons::kPeerDown, "nothing is at " + address);
    }
    if (found->second.late > 0) {
      --found->second.late;
      return Status(Code::kDeadlineExceeded, reasons::kDeadline, "too late");
    }
    HelloReply answer;
    answer.self.node = found->second.node;
    answer.self.boot_id = found->second.boot_id;
    answer.self.protocol_min = answer.self.protocol_max = request.self.protocol_max;
    answer.self.generation = 1;
    answer.self.capabilities = NodeCapability{};
    return answer;
  }

 private:
  struct Place {
    std::string node;
    std::string boot_id;
    int late = 0;
  };
  mutable Mutex mutex_;
  std::map<std::string, Place> places_ ONECOPY_GUARDED_BY(mutex_);
  std::map<std::string, size_t> asked_ ONECOPY_GUARDED_BY(mutex_);
  std::string held_at_ ONECOPY_GUARDED_BY(mutex_);
  std::vector<Task> held_ ONECOPY_GUARDED_BY(mutex_);
};

class NetworkPeer final : public HelloOnlyPeer {
 public:
  NetworkPeer(Network& network, std::string address)
      : network_(network), address_(std::move(address)) {}
  void Hello(const std::string&, HelloRequest request, Reply<HelloReply> reply) override {
    Task answer = [&network = network_, address = address_, request,
                   reply = std::move(reply)]() mutable { reply(network.Hello(address, request)); };
    if (!network_.Holds(address_, answer)) answer();
  }

 private:
  Network& network_;
  const std::string address_;
};

class NetworkDialer final : public PeerDialer {
 public:
  explicit NetworkDialer(Network& network) : network_(network) {}
  std::unique_ptr<PeerApi> Dial(const std::string&, const std::string& address) override {
    return std::make_unique<NetworkPeer>(network_, address);
  }

 private:
  Network& network_;
};

// One engine that lets in every node.
struct PeersRig {
  Network network;
  NetworkDialer dialer{network};
  std::unique_ptr<Engine> engine;

  explicit PeersRig(const std::function<void(Options&)>& adjust = {}) {
    REQUIRE_OK(log::SetLevel("error"));
    Options options;
    options.node = "here";
    options.version = "test";
    options.heartbeat = std::chrono::milliseconds(10);
    options.reconnect_delay_min = std::chrono::milliseconds(2);
    options.reconnect_delay_max = std::chrono::milliseconds(10);
    options.set_log_level = [](const std::string&) { return std::string("info"); };
    options.peers = {{"*", "", std::nullopt}};
    if (adjust) adjust(options);
    std::vector<std::unique_ptr<Memory>> memories;
    Backend<Memory> host = host::Describe();
    memories.push_back(std::move(*host.create({"here", Settings(host.settings), {}, {}})));
    engine = std::make_unique<Engine>(std::move(options), std::move(memories),
                                      std::vector<std::unique_ptr<Link>>(), dialer);
    engine->Start("127.0.0.1:1");
  }
  ~PeersRig() { engine->Stop(); }

  // What is discovered of west now; empty: nothing.
  void Discover(const std::string& address) {
    std::vector<PeerOptions> peers = {{"*", "", std::nullopt}};
    if (!address.empty()) {
      peers.push_back({"west", address, std::nullopt});
      peers.back().discovered = true;
    }
    engine->SetPeers(std::move(peers));
  }
  // West, or another node, calls, and says where it is.
  void Call(const std::string& boot_id, const std::string& address,
            const std::string& node = "west") {
    REQUIRE_OK(TryCall(boot_id, address, node));
  }
  Status TryCall(const std::string& boot_id, const std::string& address, const std::string& node) {
    std::promise<Status> answered;
    engine->loop().Post([&] {
      HelloRequest request;
      request.self.node = node;
      request.self.boot_id = boot_id;
      request.self.protocol_min = request.self.protocol_max = 1;
      request.self.address = address;
      engine->node().Hello(node, std::move(request), [&](const Result<HelloReply>& reply) {
        answered.set_value(reply.status());
      });
    });
    return answered.get_future().get();
  }
  NodeInfo West() {
    const Result<NodeInfo> west = Find("west");
    return west.ok() ? *west : NodeInfo();
  }
  Result<NodeInfo> Find(const std::string& node) {
    std::promise<Result<NodeInfo>> told;
    engine->loop().Post([&] {
      engine->client().GetNode({}, node, [&](Result<NodeInfo> info) { told.set_value(info); });
    });
    return told.get_future().get();
  }
  // Why nothing can be read from that node now.
  std::string WhyNot(const std::string& node) { return AskWhyNot(node).get(); }
  std::future<std::string> AskWhyNot(const std::string& node) {
    const auto told = std::make_shared<std::promise<std::string>>();
    engine->loop().Post([this, node, told] {
      TransferRequest request;
      request.source = {node, "a"};
      request.destination = {"", "b"};
      request.validate_only = true;
      engine->client().CreateTransfer({}, request, {}, [told](const Result<TransferInfo>& info) {
        told->set_value(info.status().reason());
      });
    });
    return told->get_future();
  }
  void AwaitConnectedAt(const std::string& address) {
    WaitUntil("west is connected at " + address, [&] {
      const NodeInfo west = West();
      return west.state == NodeState::kConnected && west.address == address;
    });
  }
  void AwaitAsked(const std::string& address, size_t more) {
    const size_t before = network.asked(address);
    WaitUntil(address + " is asked", [&] { return network.asked(address) >= before + more; });
  }
};

}  // namespace

TEST_CASE("a discovered address counts again after what its peer has said of itself was tried") {
  PeersRig rig;
  rig.network.Up(kFound, "west", "1");
  rig.Discover(kFound);
  rig.AwaitConnectedAt(kFound);
  // It restarts, is away for a moment, and says that it is where nothing can be reached.
  rig.network.Down(kFound);
  rig.Call("2", kSaid);
  WaitUntil("what it says is tried", [&] { return rig.network.asked(kSaid) > 0; });
  rig.network.Up(kFound, "west", "2");
  rig.AwaitConnectedAt(kFound);
  // Also where it calls while it is down.
  rig.network.Down(kFound);
  WaitUntil("west is down", [&] { return rig.West().state == NodeState::kDisconnected; });
  rig.AwaitAsked(kFound, 2);
  rig.Call("2", kSaid);
  rig.network.Up(kFound, "west", "2");
  rig.AwaitConnectedAt(kFound);
}

TEST_CASE("a discovered address that differs does not end a peer that answers where it is") {
  PeersRig rig;
  rig.network.Up(kSaid, "west", "1");
  rig.Call("1", kSaid);
  rig.AwaitConnectedAt(kSaid);
  rig.Discover(kFound);
  rig.AwaitAsked(kSaid, 2);
  const size_t before = rig.network.asked(kSaid);
  rig.network.BeLate(kSaid);
  WaitUntil("west has been late once, and was asked again",
            [&] { return rig.network.asked(kSaid) >= before + 3; });
  CHECK(rig.network.asked(kFound) == 0);
  CHECK(rig.West().state == NodeState::kConnected);
  // Once it does not answer there any more, it is dialled where it was discovered.
  rig.network.Up(kFound, "west", "1");
  rig.network.Down(kSaid);
  rig.AwaitConnectedAt(kFound);
}

TEST_CASE("a node that was hidden while it was another is greeted when it is discovered again") {
  PeersRig rig;
  rig.network.Up(kFound, "north", "1");
  rig.Discover(kFound);
  WaitUntil("west is not what is there",
            [&] { return rig.West().state == NodeState::kIncompatible; });
  rig.Discover("");
  WaitUntil("west is not shown any more", [&] { return rig.West().name.empty(); });
  rig.network.Up(kFound, "west", "1");
  rig.Discover(kFound);
  rig.AwaitConnectedAt(kFound);
}

TEST_CASE("a node that has called by itself and left is forgotten, one that is named is not") {
  PeersRig rig([](Options& options) {
    options.peers.push_back({"named", "", std::nullopt});
    options.silent_peer_stays = options.resume_for = std::chrono::milliseconds(50);
  });
  rig.network.Up(kSaid, "west", "1");
  rig.Call("1", kSaid);
  rig.AwaitConnectedAt(kSaid);
  rig.Call("1", "10.0.0.3:7701", "named");
  const bool replaced = GENERATE(false, true);  // by another node
  if (replaced) {
    rig.network.Up(kSaid, "north", "1");
  } else {
    rig.network.Down(kSaid);
  }
  WaitUntil("west is not shown any more", [&] { return rig.West().name.empty(); });
  WaitUntil("west is not known any more",
            [&] { return rig.WhyNot("west") == reasons::kPeerNotFound; });
  CHECK(rig.Find("named").ok());
  // It comes back, and is discovered, which counts even while it does not answer.
  rig.network.Up(kSaid, "west", "2");
  rig.Call("2", kSaid);
  rig.AwaitConnectedAt(kSaid);
  rig.Discover(kSaid);
  rig.Call("1", "10.0.0.4:7701", "other");
  rig.network.Down(kSaid);
  WaitUntil("another one is gone", [&] { return !rig.Find("other").ok(); });
  CHECK(rig.West().name == "west");
}

TEST_CASE("a discovered node beyond the most peers is greeted when one of them is forgotten") {
  constexpr size_t kMostPeers = 4096;
  PeersRig rig([](Options& options) {
    options.heartbeat = std::chrono::hours(1);
    options.silent_peer_stays = options.resume_for = std::chrono::milliseconds(1);
  });
  std::vector<PeerOptions> peers = {{"*", "", std::nullopt}};
  for (size_t i = 0; i <= kMostPeers; ++i) {
    const std::string name = i == kMostPeers ? "west" : "a" + std::to_string(i);
    rig.network.Up(name + ":1", name, "1");
    peers.push_back({name, name + ":1", std::nullopt});
    peers.back().discovered = true;
  }
  rig.engine->SetPeers(peers);
  CHECK_FALSE(rig.Find("west").ok());
  rig.network.Down("a7:1");
  std::erase_if(peers, [](const PeerOptions& peer) { return peer.name == "a7"; });
  rig.engine->SetPeers(peers);
  rig.AwaitConnectedAt("west:1");
  CHECK_FALSE(rig.Find("a7").ok());
}

TEST_CASE("a peer that has left is greeted once for each request that needs it") {
  PeersRig rig([](Options& options) {
    options.silent_peer_stays = std::chrono::milliseconds(50);
    options.resume_for = std::chrono::hours(1);
  });
  rig.network.Up(kSaid, "west", "1");
  rig.Call("1", kSaid);
  rig.AwaitConnectedAt(kSaid);
  rig.network.Down(kSaid);
  WaitUntil("west is not shown any more", [&] { return rig.West().name.empty(); });
  const size_t before = rig.network.asked(kSaid);
  CHECK(rig.WhyNot("west") == reasons::kPeerDown);
  CHECK(rig.network.asked(kSaid) == before + 1);
  CHECK(rig.West().name.empty());
  rig.network.Up(kSaid, "west", "1");
  CHECK(rig.WhyNot("west") != reasons::kPeerDown);
  rig.AwaitConnectedAt(kSaid);
  const size_t connected = rig.network.asked(kSaid);
  WaitUntil("heartbeats go on", [&] { return rig.network.asked(kSaid) > connected + 2; });
}

TEST_CASE("a new node has the place of the one that has been hidden for longest") {
  constexpr size_t kMostPeers = 4096;
  PeersRig rig([](Options& options) { options.heartbeat = std::chrono::hours(1); });
  std::vector<PeerOptions> peers = {{"*", "", std::nullopt}};
  const auto discover = [&](const std::string& name) {
    rig.network.Up(name + ":1", name, "1");
    peers.push_back({name, name + ":1", std::nullopt});
    peers.back().discovered = true;
  };
  const auto hide = [&](const std::string& name) {
    rig.network.Down(name + ":1");
    std::erase_if(peers, [&](const PeerOptions& peer) { return peer.name == name; });
    rig.engine->SetPeers(peers);
    WaitUntil(name + " is hidden", [&] { return !rig.Find(name).ok(); });
  };
  for (size_t i = 0; i < kMostPeers; ++i) discover("a" + std::to_string(i));
  rig.engine->SetPeers(peers);
  hide("a9");
  hide("a1");
  hide("a5");
  rig.network.Up(kSaid, "west", "1");
  rig.Call("1", kSaid);
  rig.AwaitConnectedAt(kSaid);
  CHECK(rig.WhyNot("a9") == reasons::kPeerNotFound);
  CHECK(rig.WhyNot("a1") == reasons::kPeerDown);
  // One that is known already takes no place, although one that is new has a name before its.
  discover("a5");
  discover("a0a");
  rig.engine->SetPeers(peers);
  WaitUntil("a new one is discovered", [&] { return rig.Find("a0a").ok(); });
  CHECK(rig.WhyNot("a1") == reasons::kPeerNotFound);
  CHECK(rig.Find("a5").ok());
  // One that finds no room has the place of the next that is hidden.
  discover("north");
  rig.engine->SetPeers(peers);
  CHECK_FALSE(rig.Find("north").ok());
  hide("a7");
  WaitUntil("north is discovered", [&] { return rig.Find("north").ok(); });
  CHECK(rig.WhyNot("a7") == reasons::kPeerNotFound);
}

TEST_CASE("a peer for which a request waits is not forgotten for a new one") {
  constexpr size_t kMostPeers = 4096;
  PeersRig rig([](Options& options) {
    options.silent_peer_stays = std::chrono::milliseconds(50);
    options.reconnect_delay_min = std::chrono::milliseconds(20);
    options.reconnect_delay_max = std::chrono::hours(1);
  });
  std::vector<PeerOptions> peers = {{"*", "", std::nullopt}};
  for (size_t i = 0; i < kMostPeers - 2; ++i) {
    peers.push_back({"a" + std::to_string(i), "away:1", std::nullopt});
    peers.back().discovered = true;
  }
  rig.engine->SetPeers(peers);
  for (const char* name : {"west", "north"}) {
    const std::string address = std::string(name) + ":1";
    rig.network.Up(address, name, "1");
    rig.Call("1", address, name);
    rig.network.Down(address);
    WaitUntil(std::string(name) + " is hidden", [&] { return !rig.Find(name).ok(); });
  }
  rig.network.Hold("west:1");
  std::future<std::string> waits = rig.AskWhyNot("west");
  WaitUntil("west is greeted", [&] { return rig.network.holding(); });
  rig.network.Up("south:1", "south", "1");
  rig.Call("1", "south:1", "south");
  CHECK(rig.TryCall("1", "east:1", "east").reason() == reasons::kQuota);
  CHECK(rig.WhyNot("north") == reasons::kPeerNotFound);
  rig.network.Up("west:1", "west", "1");
  rig.engine->loop().Post([&] {
    for (Task& answer : rig.network.Release()) answer();
  });
  CHECK(waits.get() == reasons::kNicUnreachable);
  CHECK(rig.Find("west").ok());
}
