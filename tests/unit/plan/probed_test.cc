// What probes found, and what there would be to probe.
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/unit/plan/nodes.h"

using onecopy::NodeCapability;
using onecopy::Viability;
using onecopy::plan::CanProbe;
using onecopy::plan::ContendingWires;
using onecopy::plan::MakePlan;
using onecopy::plan::Request;
using onecopy::plan::Wire;
using onecopy::plan::WireEnd;
using onecopy::testing::Move;
using onecopy::testing::Node;
using onecopy::testing::RefusalOf;
using onecopy::testing::Twin;
namespace reasons = onecopy::reasons;

namespace {

const WireEnd kHost{"host", {}};

WireEnd Gpu(const Request& request, bool source) {
  const auto& end = source ? request.source : request.destination;
  return {end.kind, end.device};
}

Wire Direct(const Request& request) { return {"verbs", Gpu(request, true), Gpu(request, false)}; }

Viability Failed(const char* detail) {
  return Viability::No(reasons::kNicUnreachable, detail, "look at the fabric");
}

}  // namespace

TEST_CASE("what only clients have is not probed, at neither end") {
  const WireEnd gpu{"cuda", "GPU-1"};
  const WireEnd dma_buf{"dmabuf", {}};
  for (const WireEnd& end : {kHost, gpu}) {
    CHECK(CanProbe(end));
    CHECK(CanProbe(Wire{"verbs", end, kHost}));
    CHECK(CanProbe(Wire{"verbs", gpu, end}));
    CHECK_FALSE(CanProbe(Wire{"verbs", dma_buf, end}));
    CHECK_FALSE(CanProbe(Wire{"verbs", end, dma_buf}));
  }
  CHECK_FALSE(CanProbe(dma_buf));
  CHECK_FALSE(CanProbe(WireEnd{"cuda", {}}));  // no GPU in particular
}

TEST_CASE("there is something to probe only where probes decide") {
  struct Row {
    const char* source;
    const char* destination;
    const char* glob;
    size_t wires;
  };
  const Row row = GENERATE(values<Row>({
      {"laptop/host", "consumer/host", "", 0},              // only tcp carries
      {"hopper-pair/cuda:1", "consumer/cuda:0", "", 0},     // likewise, whatever is staged
      {"hopper-pair/cuda:0", "hopper-pair/cuda:1", "", 0},  // inside a node
      {"rail-a/cuda:0", "roce/cuda:0", "", 0},              // no device reaches another
      {"rail-a/host", "rail-b/host", "", 2},                // verbs or tcp
      {"vm-a/host", "vm-b/host", "", 2},                    // likewise emulated
      {"rail-a/host", "rail-b/host", "rdma-*", 0},          // only verbs is acceptable
      {"rail-a/cuda:0", "rail-b/cuda:0", "rdma-direct", 0},
      {"rail-a/cuda:0", "rail-b/cuda:0", "rdma-*", 4},  // direct, two bounces, staged
      {"rail-a/cuda:0", "rail-b/cuda:0", "", 5},        // and tcp
      {"half/cuda:1", "roce/cuda:0", "", 3},            // one bounce, staged, tcp
  }));
  INFO(row.source << " to " << row.destination << " by " << row.glob);
  Request request = Move(row.source, row.destination);
  request.policy.path_glob = row.glob;
  CHECK(ContendingWires(request).size() == row.wires);
  request.bytes = 0;
  CHECK(ContendingWires(request).empty());
}

TEST_CASE("what promises most is probed first, and what has failed no more") {
  Request request = Move("rail-a/cuda:0", "rail-b/cuda:0");
  std::vector<Wire> wires = ContendingWires(request);
  REQUIRE(wires.size() == 5);
  CHECK(wires.front() == Direct(request));
  CHECK(wires.back() == Wire{"tcp", kHost, kHost});
  request.estimates.FailedWire(Direct(request), Failed("no answer"));
  wires = ContendingWires(request);
  CHECK(wires.size() == 4);
  CHECK(std::find(wires.begin(), wires.end(), Direct(request)) == wires.end());
}

TEST_CASE("a probed wire is the estimate of the path that crosses it without a stop") {
  Request request = Move("rail-a/cuda:0", "rail-b/cuda:0");
  request.estimates.MeasuredWire(Direct(request), 47e9, 3e-6);
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "rdma-direct");
  CHECK(plan->measured);
  CHECK(plan->estimated_bytes_per_second > 46.9e9);
}

TEST_CASE("a staged path is as fast as its wire, or as its copies are believed to be") {
  const auto [wire, least, most, measured] = GENERATE(
      table<double, double, double, bool>({{5e9, 4.9e9, 5e9, true}, {400e9, 34e9, 35e9, false}}));
  Request request = Move("rail-a/cuda:0", "rail-b/cuda:0");
  request.policy.path_glob = "rdma-staged";
  request.estimates.MeasuredWire({"verbs", kHost, kHost}, wire, 3e-6);
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->measured == measured);
  CHECK(plan->estimated_bytes_per_second > least);
  CHECK(plan->estimated_bytes_per_second <= most);
}

TEST_CASE(
    "GPUDirect beyond a bridge that probes slower than staging is passed over, with figures") {
  Request request = Move("rail-a/cuda:0", "rail-b/cuda:0");
  request.estimates.MeasuredWire(Direct(request), 15e9, 0);
  request.estimates.MeasuredWire({"verbs", kHost, kHost}, 34e9, 0);
  request.estimates.FailedWire({"verbs", Gpu(request, true), kHost}, Failed("no answer"));
  request.estimates.FailedWire({"verbs", kHost, Gpu(request, false)}, Failed("no answer"));
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "rdma-staged");
  const auto& refusal = RefusalOf(plan->refused, "rdma-direct");
  CHECK(refusal.reason == reasons::kSlowerMeasured);
  CHECK(refusal.detail.find("15 GB/s (measured by a probe) against 3") != std::string::npos);
}

TEST_CASE("a wire that failed its probe is refused with what was seen") {
  Request request = Move("rail-a/host", "rail-b/host");
  request.estimates.FailedWire({"verbs", kHost, kHost}, Failed("ibv_post_send: ENOMEM"));
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "tcp-direct");
  const auto& refusal = RefusalOf(plan->refused, "rdma-direct");
  CHECK(refusal.reason == reasons::kNicUnreachable);
  CHECK(refusal.detail == "ibv_post_send: ENOMEM");
  CHECK(refusal.remedy == "look at the fabric");

  request.policy.path_glob = "rdma-*";
  const auto unmet = MakePlan(request);
  CHECK(unmet.status().reason() == reasons::kPolicyUnmet);
}

TEST_CASE("a pair of devices that failed its probe is left out, and the others go on") {
  Request request = Move("rail-a/host", "rail-b/host");
  const Wire wire{"verbs", kHost, kHost};
  const std::string first = "mlx5_0";
  request.estimates.ProbedPair(wire, first, first, {Failed("mlx5_0 to mlx5_0: no answer"), 0});
  auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "rdma-direct");
  for (int i = 1; i < 8; ++i) {
    const std::string name = "mlx5_" + std::to_string(i);
    request.estimates.ProbedPair(wire, name, name, {Failed("no answer"), 0});
  }
  plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "tcp-direct");
  CHECK(RefusalOf(plan->refused, "rdma-direct").detail == "mlx5_0 to mlx5_0: no answer");
}

TEST_CASE("of devices that say the same of themselves the same rail, or the probe, decides") {
  NodeCapability east = Node("roce");
  NodeCapability west = Twin(east, "west");
  west.host = "host-west";
  // Two devices a node on one fabric.
  for (NodeCapability* node : {&east, &west}) {
    auto& nics = node->links.back().nics;
    nics.resize(1);
    nics.push_back(nics[0]);
    nics[1].name = "mlx5_77";
  }
  Request request = Move("roce/host", "roce/host");
  request.source.node = &east;
  request.destination.node = &west;
  request.policy.path_glob = "rdma-direct";
  request.bytes = uint64_t{1} << 40;
  const Wire wire{"verbs", kHost, kHost};
  const std::string zero = east.links.back().nics[0].name;
  const std::string other = "mlx5_77";
  // Fail all but one: what remains must be found, whatever its rail.
  for (const auto& [a, b] :
       {std::pair(zero, zero), std::pair(other, other), std::pair(zero, other)}) {
    request.estimates.ProbedPair(wire, a, b, {Failed("no answer"), 0});
  }
  CHECK(MakePlan(request).ok());
  request.estimates.ProbedPair(wire, other, zero, {Failed("no answer"), 0});
  CHECK(MakePlan(request).status().reason() == reasons::kPolicyUnmet);
}

TEST_CASE("software devices are not preferred to sockets by the table, however short or slow") {
  const uint64_t bytes =
      GENERATE(uint64_t{1}, uint64_t{4096}, uint64_t{1} << 20, uint64_t{1} << 30);
  // Sockets over a device that says that it is slow carry the software device too.
  const uint64_t speed = GENERATE(uint64_t{0}, uint64_t{12'500'000}, uint64_t{125'000'000});
  CAPTURE(bytes, speed);
  NodeCapability east = Node("vm-a");
  NodeCapability west = Node("vm-b");
  for (NodeCapability* node : {&east, &west}) node->links.front().nics[0].bytes_per_second = speed;
  Request request = Move("vm-a/host", "vm-b/host");
  request.source.node = &east;
  request.destination.node = &west;
  request.bytes = bytes;
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "tcp-direct");
}

TEST_CASE("a software device that probes faster than sockets is taken, and marked") {
  Request request = Move("vm-a/host", "vm-b/host");
  request.estimates.MeasuredWire({"verbs", kHost, kHost}, 3e9, 50e-6);
  request.estimates.MeasuredWire({"tcp", kHost, kHost}, 2e9, 50e-6);
  auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "rdma-direct");
  CHECK(plan->emulated);
  request.policy.at_most_copies = 1;
  CHECK(MakePlan(request).status().reason() == reasons::kPolicyUnmet);
  request.policy.allow_emulated = true;
  plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "rdma-direct");
}
