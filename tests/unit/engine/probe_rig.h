// Two nodes with a tcp link and a fake link with RDMA devices, and a buffer on each: what probes
// find between them.
#pragma once

#include <algorithm>
#include <map>

#include "onecopy/reasons.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/fake_rdma.h"
#include "tests/support/memory.h"
#include "tests/support/text.h"

namespace onecopy::testing {

using namespace engine;
using namespace std::chrono_literals;

inline constexpr uint64_t kBytes = 3'000'001;

inline NicRegistration Refused(const std::string& nic) {
  return {nic,
          "",
          {Code::kFailedPrecondition, reasons::kHostNotPinnable,
           nic + ": ibv_reg_mr: Cannot allocate memory"}};
}

struct ProbeRig {
  explicit ProbeRig(size_t nics = 1, const std::function<void(NodePlan&)>& change = {})
      : cluster({"east", "west"},
                [this, nics, change](const std::string& name, NodePlan& plan) {
                  plan.options.probe_bytes = 256 << 10;
                  // What is not meant to end a probe early does not, however slow the machine.
                  plan.options.probe_wait = 60s;
                  plan.options.probe_limit = 60s;
                  plan.links.push_back(MakeFakeRdma(MakeTcpLink(name), nics, control(name)));
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
    Fill(source.data, kBytes, 1);
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

inline Refusal RefusalOf(const TransferInfo& transfer, const std::string& path) {
  for (const Refusal& refusal : transfer.receipt.refused) {
    if (refusal.path == path) return refusal;
  }
  FAIL(path << " was not refused");
  return {};
}

}  // namespace onecopy::testing
