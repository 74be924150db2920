// Probes: when there is one, what it finds, and what transfers make of it.
#include <algorithm>
#include <atomic>

#include "tests/support/engine_cluster.h"
#include "tests/support/fake_rdma.h"
#include "tests/support/memory.h"
#include "transport/core/reasons.h"
#include "transport/link/tcp/factory.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;
using namespace std::chrono_literals;

namespace {

constexpr uint64_t kBytes = 3'000'001;

std::unique_ptr<Link> Tcp(const std::string& node) {
  Backend<Link> tcp = tcp::Describe();
  BackendContext context{node, Settings(tcp.settings), {}, {}};
  context.lanes = "127.0.0.1:0";
  return std::move(*tcp.create(context));
}

NicRegistration Refused(const std::string& nic) {
  return {nic,
          "",
          {Code::kFailedPrecondition, reasons::kHostNotPinnable,
           nic + ": ibv_reg_mr: Cannot allocate memory"}};
}

// Two nodes with a tcp link and a fake link with RDMA devices, and a buffer on each.
struct Rig {
  explicit Rig(size_t nics = 1, const std::function<void(NodePlan&)>& change = {})
      : cluster({"east", "west"},
                [this, nics, change](const std::string& name, NodePlan& plan) {
                  plan.options.probe_bytes = 256 << 10;
                  // What is not meant to end a probe early does not, however slow the machine.
                  plan.options.probe_wait = 60s;
                  plan.options.probe_limit = 60s;
                  plan.links.push_back(MakeFakeRdma(Tcp(name), nics, control(name)));
                  if (change) change(plan);
                }),
        east(cluster["east"]),
        west(cluster["west"]),
        alice(east.Attach()),
        bob(west.Attach()) {
    auto a = east.Register(alice, "a", kBytes);
    auto b = west.Register(bob, "b", kBytes);
    REQUIRE_OK(a);
    REQUIRE_OK(b);
    source = *a;
    sink = *b;
    for (uint64_t i = 0; i < kBytes; ++i) source.data[i] = PatternAt(i, 1);
  }

  std::shared_ptr<FakeNics> control(const std::string& node) {
    auto& found = controls[node];
    if (found == nullptr) found = std::make_shared<FakeNics>();
    return found;
  }

  TransferInfo Copy(const std::string& path = "") {
    TransferRequest request = Request("east:a", "west:b");
    request.policy.path_glob = path;
    std::fill_n(sink.data, kBytes, std::byte{0});
    auto copied = west.Copy(bob, request);
    REQUIRE_OK(copied);
    INFO(copied->error.ToString());
    CHECK(copied->state == TransferState::kSucceeded);
    CHECK(std::equal(source.data, source.data + kBytes, sink.data));
    return *copied;
  }

  // Of the way from east, as west knows it; or of west in loopback.
  std::vector<ProbeInfo> Probes(const std::string& node = "east") {
    const auto info = west.Ask<NodeInfo>(
        [&](ClientApi& api, auto reply) { api.GetNode(bob, node, std::move(reply)); });
    REQUIRE_OK(info);
    return info->probes;
  }
  // All lanes together over that link.
  ProbeInfo Probe(const std::string& link, const std::string& node = "east") {
    const std::vector<ProbeInfo> all = Probes(node);
    const auto found = std::find_if(all.begin(), all.end(), [&](const ProbeInfo& probe) {
      return probe.link == link && probe.source_nic.empty();
    });
    REQUIRE(found != all.end());
    return *found;
  }
  size_t opened() { return cluster.calls("OpenProbe"); }

  std::map<std::string, std::shared_ptr<FakeNics>> controls;
  EngineCluster cluster;
  EngineNode& east;
  EngineNode& west;
  Principal alice;
  Principal bob;
  EngineNode::Registered source;
  EngineNode::Registered sink;
};

Refusal RefusalOf(const TransferInfo& transfer, const std::string& path) {
  for (const Refusal& refusal : transfer.receipt.refused) {
    if (refusal.path == path) return refusal;
  }
  FAIL(path << " was not refused");
  return {};
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the first transfer that has a choice waits for what decides it") {
  Rig rig;
  CHECK(rig.Probes().empty());
  const TransferInfo copied = rig.Copy();
  CHECK(copied.plan->path.measured);
  for (const char* link : {"tcp", "verbs"}) {
    const ProbeInfo probe = rig.Probe(link);
    CHECK(probe.viability.viable);
    CHECK(probe.peer == "east");
    CHECK(probe.bytes_per_second > 0);
    CHECK(probe.latency_seconds > 0);
    CHECK(probe.source_memory == "host");
    CHECK(probe.expire_time > probe.time);
  }
  // West's own device was tried first, as was east's when it was asked for memory.
  CHECK(rig.Probe("verbs", "west").viability.viable == true);
  CHECK(rig.opened() == 2);
  // What is known is not found out again.
  CHECK(rig.Copy().plan->path.measured);
  CHECK(rig.opened() == 2);
}

TEST_CASE("what fails over one link when it is tried is tried over the other") {
  const auto ucx = std::make_shared<FakeNics>();
  bool west = false;  // the second to be made
  Rig rig(1, [&](NodePlan& plan) {
    plan.links.push_back(MakeFakeRdma(Tcp(west ? "west" : "east"), 1,
                                      west ? ucx : std::make_shared<FakeNics>(), "ucx"));
    west = true;
  });
  // What is probed is smaller, and so works.
  rig.control("west")->Set([](FakeNics::Hooks& hooks) {
    hooks.on_register = [](const std::string& nic, const Region& region) -> NicRegistration {
      if (region.bytes() < kBytes) return {nic, "host", {}};
      return {nic, "", {Code::kResourceExhausted, reasons::kKeysExhausted, "no more regions"}};
    };
  });
  // Never measured as the slower of the two, nor tried first.
  ucx->Set([](FakeNics::Hooks& hooks) { hooks.repeat = 16; });
  const TransferInfo copied = rig.Copy("rdma-direct");
  CHECK(copied.receipt.path == "rdma-direct");
  CHECK(copied.receipt.link == "ucx");
  const auto& attempts = copied.receipt.attempts;
  REQUIRE(attempts.size() == 2);
  CHECK(attempts[0].path == "rdma-direct");
  CHECK(attempts[0].outcome == reasons::kKeysExhausted);
  CHECK(attempts[1].outcome == "SUCCEEDED");
}

TEST_CASE("nothing is probed where there is nothing to choose") {
  const std::string path = GENERATE("tcp-*", "rdma-direct");
  CAPTURE(path);
  Rig rig;
  CHECK(rig.Copy(path).receipt.steps.size() == (path == "tcp-*" ? 3 : 1));
  CHECK(rig.opened() == 0);
  CHECK(rig.Probes().empty());
  CHECK(rig.Probes("west").empty());
}

TEST_CASE("memory that no device registers is not used by the link, with the device's own words") {
  const std::string where = GENERATE("east", "west");
  CAPTURE(where);
  Rig rig(2);
  rig.control(where)->Set([](FakeNics::Hooks& hooks) {
    hooks.on_register = [](const std::string& nic, const Region&) { return Refused(nic); };
  });
  const TransferInfo copied = rig.Copy();
  CHECK(copied.receipt.path == "tcp-direct");
  const Refusal refusal = RefusalOf(copied, "rdma-direct");
  CHECK(refusal.reason == reasons::kHostNotPinnable);
  INFO(refusal.detail);
  CHECK(Has(refusal.detail, "ibv_reg_mr: Cannot allocate memory"));
}

TEST_CASE("a device that does not register memory is told apart from those that do") {
  Rig rig(2);
  rig.control("west")->Set([](FakeNics::Hooks& hooks) {
    hooks.on_register = [](const std::string& nic, const Region&) {
      return nic == "nic0" ? Refused(nic) : NicRegistration{nic, "host", {}};
    };
  });
  rig.Copy();
  const auto node = rig.west.Ask<NodeInfo>(
      [&](ClientApi& api, auto reply) { api.GetNode(rig.bob, "", std::move(reply)); });
  REQUIRE_OK(node);
  const auto& nics = node->capabilities.FindLink("verbs")->nics;
  REQUIRE(nics.size() == 2);
  CHECK_FALSE(nics[0].memories[0].viability.viable);
  CHECK(Has(nics[0].memories[0].viability.detail, "Cannot allocate memory"));
  CHECK(nics[1].memories[0].viability.viable);
}

TEST_CASE(
    "a pair of devices that does not reach each other is found, and the others are measured") {
  Rig rig(2);
  rig.control("west")->Set([](FakeNics::Hooks& hooks) {
    hooks.on_get = [](const LaneInfo& lane) -> Status {
      if (lane.device == lane.peer_device) return OkStatus();
      return {Code::kUnavailable, reasons::kNicUnreachable, "transport retry counter exceeded"};
    };
  });
  // The fake link would go on to use its lanes that fail.
  rig.Copy("tcp-*");
  const auto probed = rig.west.Ask<std::vector<ProbeInfo>>([&](ClientApi& api, auto reply) {
    Principal operator_ = rig.bob;
    operator_.administrator = true;
    api.ProbeNode(operator_, "east", std::move(reply));
  });
  REQUIRE_OK(probed);
  size_t failed = 0;
  size_t measured = 0;
  for (const ProbeInfo& probe : *probed) {
    if (probe.link != "verbs" || probe.source_nic.empty()) continue;
    CAPTURE(probe.source_nic, probe.destination_nic, probe.viability.detail);
    CHECK(probe.viability.viable == (probe.source_nic == probe.destination_nic));
    if (probe.viability.viable) {
      ++measured;
      CHECK(probe.bytes_per_second > 0);
    } else {
      ++failed;
      CHECK(probe.viability.reason == reasons::kNicUnreachable);
      CHECK(Has(probe.viability.detail, "transport retry counter exceeded"));
    }
  }
  CHECK(failed == 2);
  CHECK(measured == 2);
  CHECK(rig.Probe("verbs").viability.viable);
}

TEST_CASE("a peer whose devices are all out of reach is reached by the next path") {
  Rig rig;
  rig.control("west")->Set([&](FakeNics::Hooks& hooks) {
    // In loopback first, then from the peer.
    hooks.on_get = [&](const LaneInfo&) -> Status {
      if (rig.opened() == 0) return OkStatus();
      return {Code::kUnavailable, reasons::kNicUnreachable, "transport retry counter exceeded"};
    };
  });
  const TransferInfo copied = rig.Copy();
  CHECK(copied.receipt.path == "tcp-direct");
  const Refusal refusal = RefusalOf(copied, "rdma-direct");
  CHECK(refusal.reason == reasons::kNicUnreachable);
  CHECK(Has(refusal.detail, "transport retry counter exceeded"));
  CHECK(rig.Probe("verbs", "west").viability.viable);
}

TEST_CASE("a device that brings other bytes than there are is not used") {
  Rig rig;
  rig.control("west")->Set([](FakeNics::Hooks& hooks) {
    hooks.on_landed = [](const Span& span) {
      if (span.bytes > 2000) span.address()[1999] ^= std::byte{1};
    };
  });
  const TransferInfo copied = rig.Copy();
  CHECK(copied.receipt.path == "tcp-direct");
  CHECK(Has(RefusalOf(copied, "rdma-direct").detail, "is not what is there"));
}

TEST_CASE(
    "a peer that does not answer costs the first transfer its patience, and the next nothing") {
  Rig rig(1, [](NodePlan& plan) {
    plan.options.probe_wait = 20ms;
    plan.options.probe_limit = 50ms;
    plan.options.probe_retry = 600s;
  });
  rig.cluster.HangCalls("OpenProbe");
  // By the table, which prefers RDMA.
  const TransferInfo copied = rig.Copy();
  CHECK(copied.receipt.path == "rdma-direct");
  CHECK_FALSE(copied.plan->path.measured);
  // Both are given up in their time, and then nothing is asked before the next try is due.
  while (rig.Probes().size() < 2) std::this_thread::yield();
  const size_t asked = rig.opened();
  rig.Copy();
  CHECK(rig.opened() == asked);
  const ProbeInfo probe = rig.Probe("verbs");
  CHECK_FALSE(probe.viability.viable);
  CHECK(probe.viability.reason == reasons::kDeadline);
}

TEST_CASE("a slow probe is not waited for, and is used once it has ended") {
  Rig rig(2, [](NodePlan& plan) { plan.options.probe_wait = 20ms; });
  rig.control("west")->Set([](FakeNics::Hooks& hooks) { hooks.hold = true; });
  CHECK_FALSE(rig.Copy().plan->path.measured);
  rig.control("west")->Release();
  const auto probed = [&] {
    const std::vector<ProbeInfo> all = rig.Probes();
    return std::any_of(all.begin(), all.end(),
                       [](const ProbeInfo& probe) { return probe.link == "verbs"; });
  };
  while (!probed()) std::this_thread::yield();
  CHECK(rig.Probe("verbs").viability.viable);
}

TEST_CASE("a peer that opens an absurd probe tells nothing") {
  const uint64_t bytes = GENERATE(uint64_t{0}, uint64_t{1} << 62, ~uint64_t{0});
  CAPTURE(bytes);
  Rig rig;
  rig.cluster.ChangeProbes([bytes](OpenProbeReply& reply) { reply.bytes = bytes; });
  CHECK_FALSE(rig.Copy().plan->path.measured);
  CHECK(rig.Probe("verbs").viability.reason == reasons::kBadSize);
}

TEST_CASE("a peer that opens less than was asked for is measured by that") {
  const uint64_t bytes = GENERATE(1, 100, 5000);
  CAPTURE(bytes);
  Rig rig(2);
  rig.cluster.ChangeProbes([bytes](OpenProbeReply& reply) { reply.bytes = bytes; });
  CHECK(rig.Copy().plan->path.measured);
  CHECK(rig.Probe("verbs").viability.viable);
}

TEST_CASE("a peer that gives a key to something else is noticed") {
  Rig rig;
  const std::string key =
      GENERATE(std::string(), std::string("nonsense"), std::string(70'000, 'x'));
  rig.cluster.ChangeProbes([key](OpenProbeReply& reply) { reply.key = key; });
  rig.Copy("tcp-*");
  const auto probed = rig.west.Ask<std::vector<ProbeInfo>>(
      [&](ClientApi& api, auto reply) { api.ProbeNode(rig.bob, "east", std::move(reply)); });
  REQUIRE_OK(probed);
  CHECK_FALSE(rig.Probe("verbs").viability.viable);
}

TEST_CASE("memory is lent to probes within bounds") {
  Rig rig;
  const auto open = [&](const std::string& caller, OpenProbeRequest request) {
    std::promise<Result<OpenProbeReply>> opened;
    rig.east.engine().loop().Post([&] {
      rig.east.engine().node().OpenProbe(caller, request, [&](Result<OpenProbeReply> reply) {
        opened.set_value(std::move(reply));
      });
    });
    return opened.get_future().get().status();
  };
  OpenProbeRequest request{7, "host", "", 4096, 1};
  CHECK(open("west", request).reason() == reasons::kLinkDown);  // no such connection
  request.bytes = 0;
  CHECK(open("west", request).reason() == reasons::kBadSize);
  request.bytes = (uint64_t{64} << 20) + 1;
  CHECK(open("west", request).reason() == reasons::kBadSize);
  request.bytes = ~uint64_t{0};
  CHECK(open("west", request).reason() == reasons::kBadSize);
  request = {7, "cuda", "GPU-nobody-has", 4096, 1};
  CHECK(open("west", request).reason() == reasons::kDeviceNotFound);
  request = {7, std::string(200, '?'), std::string(200, '%'), 4096, 1};
  CHECK(open("west", request).reason() == reasons::kDeviceNotFound);

  // Nothing of all that is left: a probe works.
  CHECK(rig.Copy().plan->path.measured);
  std::promise<Status> closed;
  rig.east.engine().loop().Post([&] {
    rig.east.engine().node().CloseProbe("west", 4711,
                                        [&](const Status& status) { closed.set_value(status); });
  });
  CHECK(closed.get_future().get().ok());
}

TEST_CASE("what a link says of itself anew is probed anew") {
  Rig rig;
  rig.Copy();
  const size_t before = rig.opened();
  const WallTime first = rig.Probe("verbs").time;
  rig.control("west")->Change();
  // What is known serves until it is known better.
  rig.Copy();
  while (rig.Probe("verbs").time == first) std::this_thread::yield();
  CHECK(rig.opened() == before + 1);
}

TEST_CASE("what was found counts for its lifetime, give or take the jitter") {
  const double jitter = GENERATE(0.0, 0.5);
  CAPTURE(jitter);
  Rig rig(1, [&](NodePlan& plan) {
    plan.options.probe_lifetime = 1000s;
    plan.options.probe_jitter = jitter;
  });
  rig.Copy();
  const ProbeInfo probe = rig.Probe("verbs");
  const auto lives = std::chrono::round<std::chrono::milliseconds>(probe.expire_time - probe.time);
  CHECK(lives >= (jitter > 0 ? 500s : 1000s));
  CHECK(lives <= (jitter > 0 ? 1500s : 1000s));
}

TEST_CASE("nothing is known of a peer that has restarted") {
  Rig rig;
  rig.Copy();
  CHECK(rig.Probes().size() >= 2);
  rig.cluster.Restart("east");
  while (!rig.Probes().empty()) std::this_thread::yield();
}

TEST_CASE("whoever is no administrator waits with what was probed lately") {
  Rig rig;
  const auto probe = [&](bool administrator, const std::string& node) {
    Principal who = rig.bob;
    who.administrator = administrator;
    return rig.west.Ask<std::vector<ProbeInfo>>(
        [&](ClientApi& api, auto reply) { api.ProbeNode(who, node, std::move(reply)); });
  };
  const auto first = probe(false, "");
  REQUIRE_OK(first);
  // West in loopback, tcp and verbs from east.
  CHECK(std::count_if(first->begin(), first->end(), [](const ProbeInfo& info) {
          return info.source_nic.empty() && info.viability.viable;
        }) == 3);
  CHECK(rig.opened() == 2);
  REQUIRE_OK(probe(false, "east"));
  CHECK(rig.opened() == 2);
  REQUIRE_OK(probe(true, "east"));
  CHECK(rig.opened() == 4);
  CHECK(probe(true, "nowhere").status().reason() == reasons::kPeerNotFound);
}

TEST_CASE("a transfer far slower than its probe says so, and is counted") {
  Rig rig(1, [](NodePlan& plan) { plan.options.probe_bytes = 4 << 20; });
  constexpr uint64_t kLong = 64 << 20;
  REQUIRE_OK(rig.east.CreateBuffer(rig.alice, "long", kLong));
  REQUIRE_OK(rig.west.CreateBuffer(rig.bob, "sink", kLong));
  REQUIRE_OK(rig.west.Ask<std::vector<ProbeInfo>>(
      [&](ClientApi& api, auto reply) { api.ProbeNode(rig.bob, "east", std::move(reply)); }));
  TransferRequest request = Request("east:long", "west:sink");
  request.policy.path_glob = "rdma-direct";
  rig.control("west")->Set([](FakeNics::Hooks& hooks) { hooks.repeat = 16; });
  const auto slow = rig.west.Copy(rig.bob, request);
  REQUIRE_OK(slow);
  REQUIRE(slow->state == TransferState::kSucceeded);
  CHECK(slow->plan->path.measured);
  REQUIRE(slow->receipt.evidence.contains("alarm"));
  CHECK(Has(slow->receipt.evidence.at("alarm"), "far slower than probed"));
  const auto node = rig.west.Ask<NodeInfo>(
      [&](ClientApi& api, auto reply) { api.GetNode(rig.bob, "east", std::move(reply)); });
  REQUIRE_OK(node);
  CHECK(node->slow_transfers == 1);
}

TEST_CASE("a node that stops in the middle of a probe lets go of everything") {
  const std::string who = GENERATE("east", "west");
  CAPTURE(who);
  Rig rig(2, [](NodePlan& plan) { plan.options.probe_wait = 10ms; });
  rig.control("west")->Set([](FakeNics::Hooks& hooks) { hooks.hold = true; });
  rig.Copy("");
  rig.cluster.Remove(who);
}
