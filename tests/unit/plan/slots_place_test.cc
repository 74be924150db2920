// On which NUMA node slots are, between a drive and a GPU.
#include "daemon/plan/slots_place.h"

#include "daemon/plan/planner.h"
#include "tests/support/catch.h"

using namespace onecopy;
using namespace onecopy::plan;

namespace {

constexpr const char* kNear = "GPU-near";  // on node 1, as the drive
constexpr const char* kFar = "GPU-far";    // on node 0

MemoryCapability Gpu(const std::string& uuid, const std::string& address) {
  MemoryCapability gpu;
  gpu.kind = "cuda";
  gpu.device = uuid;
  gpu.address = address;
  return gpu;
}

TopologyDevice Device(DeviceKind kind, const std::string& name, int32_t node) {
  TopologyDevice device;
  device.kind = kind;
  device.name = device.address = name;
  device.numa_node = node;
  return device;
}

NodeCapability TwoSockets() {
  NodeCapability node;
  node.node = "east";
  MemoryCapability host;
  host.kind = "host";
  node.memories = {host, Gpu(kNear, "0000:81:00.0"), Gpu(kFar, "0000:11:00.0")};
  StoreCapability store;
  store.name = "posix";
  node.stores = {store};
  node.topology.source = "hwloc";
  node.topology.devices = {Device(DeviceKind::kGpu, "0000:11:00.0", 0),
                           Device(DeviceKind::kGpu, "0000:81:00.0", 1)};
  node.topology.distances = {Distance::kSystem};
  return node;
}

DrivePlace DriveOn(int32_t node) {
  return {{"nvme1n1"},
          node,
          node < 0 ? "" : "4-7",
          node < 0 ? "unknown: nfs: it names no block device"
                   : "nvme1n1 (0000:82:00.0, NUMA node " + std::to_string(node) + ")"};
}

Result<Path> PlanOf(const NodeCapability& node, const std::string& kind, const std::string& device,
                    const DrivePlace& drive, FileUse use = FileUse::kRead) {
  Request request;
  request.source = {&node, kFileKind, {}};
  request.destination = {&node, kind, device};
  if (use == FileUse::kWrite) std::swap(request.source, request.destination);
  request.file = FileEnd{.use = use, .pass = FilePass::kDirect, .drive = drive};
  request.bytes = uint64_t{1} << 30;
  return MakePlan(request);
}

}  // namespace

TEST_CASE("slots are near to the GPU and the drive, and to the GPU where these are apart") {
  const NodeCapability node = TwoSockets();
  for (const FileUse use : {FileUse::kRead, FileUse::kWrite}) {
    const auto together = PlanOf(node, "cuda", kNear, DriveOn(1), use);
    REQUIRE_OK(together);
    CHECK(together->slots_numa_node == 1);
    CHECK(together->placement ==
          "slots on NUMA node 1, near GPU-near and the drive: nvme1n1 (0000:82:00.0, NUMA node 1)");
    const auto apart = PlanOf(node, "cuda", kFar, DriveOn(1), use);
    REQUIRE_OK(apart);
    CHECK(apart->slots_numa_node == 0);
    CHECK(apart->placement ==
          "slots on NUMA node 0, near GPU-far, which is equally far from the drive: "
          "nvme1n1 (0000:82:00.0, NUMA node 1)");
  }
}

TEST_CASE("slots are near to the end whose place is known") {
  NodeCapability node = TwoSockets();
  const auto network = PlanOf(node, "cuda", kFar, DriveOn(-1));
  REQUIRE_OK(network);
  CHECK(network->slots_numa_node == 0);
  CHECK(network->placement ==
        "slots on NUMA node 0, near GPU-far; drive: unknown: nfs: it names "
        "no block device");
  node.memories[2].address = "0000:ff:00.0";
  const auto drive = PlanOf(node, "cuda", kFar, DriveOn(1));
  REQUIRE_OK(drive);
  CHECK(drive->slots_numa_node == 1);
  CHECK(drive->placement.ends_with("; the place of GPU-far is unknown"));
  const auto neither = PlanOf(node, "cuda", kFar, DriveOn(-1));
  REQUIRE_OK(neither);
  CHECK(neither->slots_numa_node == -1);
  CHECK(neither->placement.empty());
}

TEST_CASE("with one NUMA node, under a hypervisor and without slots nothing is placed") {
  NodeCapability node = TwoSockets();
  SECTION("one NUMA node") {
    for (TopologyDevice& device : node.topology.devices) device.numa_node = 0;
    node.topology.distances = {Distance::kHostBridge};
    const auto one = PlanOf(node, "cuda", kFar, DriveOn(-1));
    REQUIRE_OK(one);
    CHECK(one->slots_numa_node == -1);
    CHECK(one->placement.empty());
  }
  SECTION("a hypervisor") {
    node.topology.virtual_machine = true;
    const auto shown = PlanOf(node, "cuda", kFar, DriveOn(-1));
    REQUIRE_OK(shown);
    CHECK(shown->slots_numa_node == -1);
  }
  SECTION("host memory") {
    const auto host = PlanOf(node, "host", {}, DriveOn(1));
    REQUIRE_OK(host);
    CHECK(host->slots_numa_node == -1);
    CHECK(host->placement.empty());
  }
}
