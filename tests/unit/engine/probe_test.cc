// Probes: when there is one, what it finds, and what transfers make of it.
#include <atomic>

#include "tests/unit/engine/probe_rig.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;
using Rig = onecopy::testing::ProbeRig;

TEST_CASE("the first transfer that has a choice waits for what decides it") {
  Rig rig;
  CHECK(rig.Probes().empty());
  const TransferInfo copied = rig.Copy();
  CHECK(copied.plan->measured);
  for (const char* link : {"tcp", "verbs"}) {
    const ProbeInfo probe = rig.Probe(link);
    CHECK(probe.viability.viable);
    CHECK(probe.node == "east");
    CHECK(probe.bytes_per_second > 0);
    CHECK(probe.latency_seconds > 0);
    CHECK(probe.source_memory == "host");
    CHECK(probe.expire_time > probe.time);
  }
  // West's own device was tried first, as was east's when it was asked for memory.
  CHECK(rig.Probe("verbs", "west").viability.viable == true);
  CHECK(rig.opened() == 2);
  // What is known is not found out again.
  CHECK(rig.Copy().plan->measured);
  CHECK(rig.opened() == 2);
}

TEST_CASE("what fails over one link when it is tried is tried over the other") {
  const auto ucx = std::make_shared<FakeNics>();
  bool west = false;  // the second to be made
  Rig rig(1, [&](NodePlan& plan) {
    plan.links.push_back(MakeFakeRdma(MakeTcpLink(west ? "west" : "east"), 1,
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
  ucx->Set([](FakeNics::Hooks& hooks) { hooks.repeat = 48; });
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
  const auto& nics = node->capabilities->FindLink("verbs")->nics;
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
    // The same each time: gets that overlap must not mend what another one broke.
    hooks.on_landed = [](const Span& span) {
      if (span.bytes > 2000) std::fill_n(span.address() + 1990, 8, std::byte{0});
    };
  });
  const TransferInfo copied = rig.Copy();
  CHECK(copied.receipt.path == "tcp-direct");
  CHECK(Has(RefusalOf(copied, "rdma-direct").detail, "was read with a wrong value"));
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
  CHECK_FALSE(copied.plan->measured);
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
  CHECK_FALSE(rig.Copy().plan->measured);
  rig.control("west")->Release();
  const auto probed = [&] {
    const std::vector<ProbeInfo> all = rig.Probes();
    return std::any_of(all.begin(), all.end(),
                       [](const ProbeInfo& probe) { return probe.link == "verbs"; });
  };
  while (!probed()) std::this_thread::yield();
  CHECK(rig.Probe("verbs").viability.viable);
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
  rig.control("west")->Set([](FakeNics::Hooks& hooks) { hooks.repeat = 48; });
  const auto slow = rig.west.Copy(rig.bob, request);
  REQUIRE_OK(slow);
  REQUIRE(slow->state == TransferState::kSucceeded);
  CHECK(slow->plan->measured);
  REQUIRE(slow->receipt.evidence.contains("alarm"));
  CHECK(Has(slow->receipt.evidence.at("alarm"), "far slower than probed"));
  const auto node = rig.west.Ask<NodeInfo>(
      [&](ClientApi& api, auto reply) { api.GetNode(rig.bob, "east", std::move(reply)); });
  REQUIRE_OK(node);
  CHECK(node->slow_transfers == 1);
}
