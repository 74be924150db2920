// Why a path does not work: the true reason, what was seen and where.
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/text.h"
#include "tests/unit/plan/nodes.h"

using onecopy::Refusal;
using onecopy::plan::MakePlan;
using onecopy::testing::Has;
using onecopy::testing::Move;
using onecopy::testing::RefusalOf;
using onecopy::testing::StepNameOf;
namespace reasons = onecopy::reasons;

namespace {

// What is said about `path`, whether another one is taken or none.
Refusal Refused(onecopy::plan::Request request, const std::string& path) {
  request.policy.path_glob = path;
  const auto plan = MakePlan(request);
  REQUIRE_FALSE(plan.ok());
  REQUIRE(plan.status().reason() == reasons::kPolicyUnmet);
  return RefusalOf(plan.status().refusals(), path);
}

}  // namespace

TEST_CASE("a path that cannot work is refused with its true reason, and says where") {
  const auto [source, destination, path, reason, detail] =
      GENERATE(table<const char*, const char*, const char*, const char*, const char*>({
          // one node
          {"laptop/host", "laptop/host", "tcp-direct", "SAME_NODE", "laptop"},
          {"rail-a/cuda:0", "rail-a/cuda:1", "rdma-direct", "SAME_NODE", "rail-a"},
          {"consumer/cuda:0", "consumer/cuda:1", "peer-direct", "NO_PEER_ACCESS", "consumer"},
          {"consumer/cuda:0", "consumer/cuda:1", "local", "NOT_APPLICABLE", "two GPUs"},
          {"consumer/cuda:0", "consumer/cuda:0", "peer-direct", "NOT_APPLICABLE", "both ends"},
          {"consumer/cuda:0", "consumer/host", "peer-direct", "NOT_APPLICABLE", "host memory"},
          {"consumer/host", "consumer/cuda:0", "peer-direct", "NOT_APPLICABLE", "host memory"},
          {"consumer/host", "consumer/host", "storage-direct", "NOT_APPLICABLE", "buffers"},
          // two nodes
          {"laptop/host", "consumer/host", "local", "OTHER_NODE", "two nodes"},
          {"rail-a/cuda:0", "rail-b/cuda:0", "peer-direct", "OTHER_NODE", "two nodes"},
          {"rail-a/cuda:0", "rail-b/cuda:0", "peer-bounce", "OTHER_NODE", "two nodes"},
          {"rail-a/cuda:0", "rail-b/cuda:0", "storage-bounce", "NOT_APPLICABLE", "buffers"},
          {"laptop/host", "consumer/cuda:0", "tcp-direct", "NOT_APPLICABLE", "consumer"},
          {"rail-a/cuda:0", "rail-b/cuda:0", "tcp-bounce", "NOT_APPLICABLE", "only one end"},
          {"no-port/host", "laptop/host", "tcp-direct", "LINK_DOWN", "7702"},
          {"laptop/host", "no-port/host", "tcp-staged", "LINK_DOWN", "tcp of no-port"},
          // RDMA
          {"laptop/host", "consumer/host", "rdma-direct", "NO_RDMA_DEVICE", "neither laptop nor"},
          {"rail-a/host", "laptop/host", "rdma-direct", "NO_RDMA_DEVICE", "laptop has no link"},
          {"laptop/host", "rail-a/host", "rdma-direct", "NO_RDMA_DEVICE", "laptop has no link"},
          {"hopper-pair/host", "rail-a/host", "rdma-staged", "NO_RDMA_DEVICE",
           "verbs of hopper-pair: /sys/class/infiniband is empty"},
          {"rail-a/host", "old-driver/host", "rdma-direct", "NO_DRIVER", "libibverbs.so.1"},
          {"hopper-pair/host", "old-driver/host", "rdma-direct", "NO_RDMA_DEVICE",
           "verbs of old-driver: libibverbs.so.1"},
          {"rail-a/host", "ucx-122/host", "rdma-direct", "LINK_MISSING",
           "ucx-122 has no link verbs, which rail-a has"},
          {"ucx-122/host", "ucx-sockets/host", "rdma-direct", "NO_RDMA_DEVICE", "ucx-sockets"},
          {"ucx-113/cuda:0", "ucx-122/cuda:0", "rdma-direct", "LINK_VERSIONS", "1.13.1"},
          {"rail-a/cuda:0", "roce/cuda:0", "rdma-direct", "NIC_UNREACHABLE", "rail7"},
          {"no-dmabuf/cuda:0", "roce/cuda:0", "rdma-direct", "GPU_NOT_PINNABLE",
           "mlx5_0 of no-dmabuf cannot register GPU-"},
          {"roce/cuda:0", "no-dmabuf/cuda:1", "rdma-direct", "GPU_NOT_PINNABLE", "EOPNOTSUPP"},
          {"half/cuda:1", "roce/cuda:0", "rdma-direct", "GPU_NOT_PINNABLE", "loopback probe"},
          {"half/cuda:1", "no-dmabuf/cuda:0", "rdma-bounce", "GPU_NOT_PINNABLE", "cannot register"},
      }));
  INFO(source << " to " << destination << " by " << path);
  const Refusal refusal = Refused(Move(source, destination), path);
  CHECK(refusal.reason == reason);
  CHECK(Has(refusal.detail, detail));
}

TEST_CASE("what both nodes lack is said of both") {
  const Refusal refusal = Refused(Move("hopper-pair/host", "lost-gpu/host"), "rdma-direct");
  CHECK(refusal.reason == reasons::kNoRdmaDevice);
  CHECK(Has(refusal.detail, "verbs of hopper-pair"));
  CHECK(Has(refusal.detail, "verbs of lost-gpu"));
  CHECK(Has(refusal.remedy, "install"));

  const Refusal pins = Refused(Move("half/cuda:1", "no-dmabuf/cuda:0"), "rdma-direct");
  CHECK(Has(pins.detail, StepNameOf("half/cuda:1")));
  CHECK(Has(pins.detail, StepNameOf("no-dmabuf/cuda:0")));
}

TEST_CASE("two daemons of one host share GPU memory, where both see the GPU and one reaches it") {
  auto west = onecopy::testing::Twin(onecopy::testing::Node("hopper-pair"), "west");
  auto request = Move("hopper-pair/cuda:0", "hopper-pair/cuda:1");
  request.destination.node = &west;
  const auto plan = MakePlan(request);
  REQUIRE_OK(plan);
  CHECK(plan->path == "peer-direct");
  CHECK(plan->link.empty());
  CHECK(plan->copies() == 1);
  CHECK(plan->steps[0].node == "west");

  auto same = request;
  same.destination.device = same.source.device;
  const auto inside = MakePlan(same);
  REQUIRE_OK(inside);
  CHECK(inside->path == "peer-direct");
  CHECK(RefusalOf(inside->refused, "rdma-direct").reason == reasons::kNoRdmaDevice);

  for (auto& memory : west.memories) memory.direct_peers.clear();
  CHECK(Refused(request, "peer-direct").reason == reasons::kNoPeerAccess);
  std::erase_if(west.memories,
                [&](const auto& memory) { return memory.device == request.source.device; });
  const Refusal blind = Refused(request, "peer-direct");
  CHECK(blind.reason == reasons::kDeviceNotFound);
  CHECK(Has(blind.detail, "west does not see"));
}

TEST_CASE("a link within the host carries peer-direct where it is asked for, and is no RDMA") {
  auto east = onecopy::testing::Node("hopper-pair");
  std::erase_if(east.links, [](const auto& link) { return link.name == "ucx"; });
  auto& ucx = east.links.emplace_back();
  ucx.name = "ucx";
  ucx.version = "1.22.0";
  ucx.version_must_match = true;
  auto& nic = ucx.nics.emplace_back();
  nic.name = "cuda_ipc";
  nic.fabric = "host";
  nic.memories = {{"cuda", {}, {}}};
  auto west = onecopy::testing::Twin(east, "west");
  auto request = Move("hopper-pair/cuda:0", "hopper-pair/cuda:1");
  request.source.node = &east;
  request.destination.node = &west;
  const auto imported = MakePlan(request);
  REQUIRE_OK(imported);
  CHECK(imported->path == "peer-direct");
  CHECK(imported->link.empty());

  request.policy.link = "ucx";
  const auto carried = MakePlan(request);
  REQUIRE_OK(carried);
  CHECK(carried->path == "peer-direct");
  CHECK(carried->link == "ucx");

  west.links.back().version = "1.23.0";
  CHECK_FALSE(MakePlan(request).ok());
}

TEST_CASE("two daemons of one host are two nodes to host memory, and the refusal says so") {
  const auto west = onecopy::testing::Twin(onecopy::testing::Node("hopper-pair"), "west");
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"hopper-pair/host", "hopper-pair/host"}, {"hopper-pair/cuda:0", "hopper-pair/host"}}) {
    auto request = Move(from, to);
    request.destination.node = &west;
    for (const std::string path : {"local", "peer-direct"}) {
      const Refusal refusal = Refused(request, path);
      CHECK(refusal.reason == reasons::kOtherNode);
      CHECK(Has(refusal.detail, "hopper-pair and west are two daemons of one host"));
    }
  }
}

TEST_CASE("memory that a NIC does not offer is not registrable") {
  auto node = onecopy::testing::Node("roce");
  for (auto& nic : node.links.back().nics) nic.memories.clear();
  auto request = Move("roce/host", "no-dmabuf/host");
  request.source.node = &node;
  const Refusal refusal = Refused(request, "rdma-direct");
  CHECK(refusal.reason == reasons::kHostNotPinnable);
  CHECK(Has(refusal.detail, "mlx5_0 of roce cannot register host memory"));
}

TEST_CASE("NICs of which none works refuse with what the first one says") {
  auto node = onecopy::testing::Node("roce");
  for (auto& nic : node.links.back().nics) {
    nic.viability = onecopy::Viability::No("LINK_DOWN", "the port is down", "connect its cable");
  }
  auto request = Move("roce/host", "no-dmabuf/host");
  request.source.node = &node;
  const Refusal refusal = Refused(request, "rdma-direct");
  CHECK(refusal.reason == reasons::kLinkDown);
  CHECK(refusal.detail == "mlx5_0 of roce: the port is down");
  CHECK(refusal.remedy == "connect its cable");
}

TEST_CASE("of several links the refusal is that of the one that came closest") {
  auto east = onecopy::testing::Node("ucx-113");
  east.links.push_back(*onecopy::testing::Node("hopper-pair").FindLink("verbs"));
  auto request = Move("ucx-113/cuda:0", "ucx-122/cuda:0");
  request.source.node = &east;
  CHECK(Refused(request, "rdma-direct").reason == reasons::kLinkVersions);
  request.policy.link = "verbs";
  CHECK(Refused(request, "rdma-direct").reason == reasons::kLinkMissing);
}

TEST_CASE("a memory that is not viable refuses every path with its reason") {
  const auto [source, destination, reason, detail] =
      GENERATE(table<const char*, const char*, const char*, const char*>({
          {"lost-gpu/cuda:1", "laptop/host", "GPU_LOST", "Xid 79"},
          {"laptop/host", "lost-gpu/cuda:1", "GPU_LOST", "lost-gpu"},
          {"old-driver/cuda", "old-driver/host", "DRIVER_TOO_OLD", "12.2"},
          {"laptop/cuda", "vm-a/cuda", "NO_GPU", "cuda memory of laptop"},
      }));
  const auto plan = MakePlan(Move(source, destination));
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.status().code() == onecopy::Code::kFailedPrecondition);
  CHECK(Has(plan.status().message(), reason));
  for (const Refusal& refusal : std::vector<Refusal>(plan.status().refusals())) {
    CHECK(refusal.reason == reason);
    CHECK(Has(refusal.detail, detail));
  }
}

TEST_CASE("a device that the node does not have refuses every path") {
  auto request = Move("hopper-pair/cuda:0", "laptop/host");
  request.source.device = "GPU-none";
  auto plan = MakePlan(request);
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.status().refusals()[0].reason == reasons::kDeviceNotFound);
  CHECK(Has(plan.status().refusals()[0].detail, "GPU-none of hopper-pair"));

  // A node without any GPU says why there is none.
  request = Move("laptop/host", "laptop/host");
  request.source = {&onecopy::testing::Node("old-driver"), "cuda", "GPU-none"};
  plan = MakePlan(request);
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.status().refusals()[0].reason == reasons::kDriverTooOld);
}

TEST_CASE("where nothing works the message says what stands in the way of sockets") {
  const auto plan = MakePlan(Move("laptop/host", "no-port/host"));
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.status().reason() == reasons::kPolicyUnmet);
  CHECK(Has(plan.status().message(), "tcp-staged: LINK_DOWN"));
  CHECK(plan.status().remedy() == "choose another with --lanes");
}
