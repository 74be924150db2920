// The way through the GPU that is nearer to a file's drive: where it is offered, and taken.
#include <algorithm>

#include "daemon/plan/candidates.h"
#include "daemon/plan/planner.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using namespace onecopy;
using namespace onecopy::plan;

namespace {

constexpr const char* kFar = "GPU-far";
constexpr const char* kNear = "GPU-near";
constexpr const char* kNearer = "GPU-nearer";
constexpr const char* kWay = "storage-direct+peer-direct";

MemoryCapability Gpu(const std::string& uuid, const std::string& address,
                     std::vector<std::string> peers) {
  MemoryCapability gpu;
  gpu.kind = "cuda";
  gpu.device = uuid;
  gpu.address = address;
  gpu.direct_peers = gpu.nvlink_peers = std::move(peers);
  return gpu;
}

StoreCapability Store(const std::string& name) {
  StoreCapability store;
  store.name = name;
  return store;
}

// The drive and two GPUs on one socket, one GPU on the other: the second of the two is nearer.
struct Server {
  Server() {
    node.node = "east";
    MemoryCapability host;
    host.kind = "host";
    node.memories = {host, Gpu(kFar, "0000:11:00.0", {kNear, kNearer}),
                     Gpu(kNear, "0000:81:00.0", {kFar, kNearer}),
                     Gpu(kNearer, "0000:91:00.0", {kFar, kNear})};
    node.stores = {Store("posix"), Store("cufile")};
    Topology& topology = node.topology;
    topology.source = "hwloc";
    int32_t numa_node = 0;
    for (const char* address : {"0000:11:00.0", "0000:81:00.0", "0000:91:00.0"}) {
      TopologyDevice device;
      device.kind = DeviceKind::kGpu;
      device.name = device.address = address;
      device.numa_node = std::min(numa_node++, 1);
      topology.devices.push_back(device);
    }
    TopologyDevice drive;
    drive.kind = DeviceKind::kNvme;
    drive.name = "nvme0n1";
    drive.numa_node = 1;
    topology.devices.push_back(drive);
    topology.distances.assign(Topology::PairCount(4), Distance::kSystem);
    Set(1, 2, Distance::kNumaNode);
    Set(1, 3, Distance::kNumaNode);
    Set(2, 3, Distance::kSwitches);
  }
  void Set(size_t one, size_t other, Distance distance) {
    node.topology.distances[node.topology.PairIndex(one, other)] = distance;
  }
  Request To(const std::string& device) const {
    Request request;
    request.source = {&node, kFileKind, {}};
    request.destination = {&node, "cuda", device};
    request.bytes = uint64_t{1} << 30;
    request.file = FileEnd{.use = FileUse::kRead, .pass = FilePass::kDirect};
    request.file->drive = {{"nvme0n1"}, 1, "4-7", "nvme0n1 (NUMA node 1)"};
    return request;
  }
  MemoryCapability& gpu(size_t i) { return node.memories[i + 1]; }

  NodeCapability node;
};

std::string Taken(const Request& request) {
  const Result<Path> plan = MakePlan(request);
  return plan.ok() ? plan->path + (plan->via.empty() ? "" : " via " + plan->via)
                   : std::string(plan.status().reason());
}

}  // namespace

TEST_CASE("a GPU far from the drive gets its file through the nearest that NVLink joins to it") {
  const Server server;
  const Result<Path> plan = MakePlan(server.To(kFar));
  REQUIRE_OK(plan);
  CHECK(plan->path == kWay);
  CHECK(plan->via == kNearer);
  CHECK(plan->copies() == 2);
  CHECK_FALSE(plan->source_staged);
  CHECK_FALSE(plan->destination_staged);
  REQUIRE(plan->steps.size() == 2);
  CHECK(plan->steps[0].from == "file");
  CHECK(plan->steps[0].to == kNearer);
  CHECK(plan->steps[0].by == "storage");
  CHECK(plan->steps[1].from == kNearer);
  CHECK(plan->steps[1].to == kFar);
  CHECK(plan->steps[1].by == "copy-engine");
  CHECK(plan->placement ==
        "through GPU-nearer, PXB from the drive and joined by NVLink to GPU-far, "
        "which is SYS from it: nvme0n1 (NUMA node 1)");
  // The one with a copy fewer was passed over, with both figures.
  const auto direct = std::find_if(plan->refused.begin(), plan->refused.end(),
                                   [](const Refusal& r) { return r.path == "storage-direct"; });
  REQUIRE(direct != plan->refused.end());
  CHECK(direct->reason == "SLOWER_ESTIMATED");
  CHECK(direct->detail.find(kWay) != std::string::npos);
}

TEST_CASE("the way through another GPU is a copy more, and refused to who counts") {
  const Server server;
  Request one = server.To(kFar);
  one.policy.at_most_copies = 1;
  CHECK(Taken(one) == "storage-direct");
  one.policy.path_glob = kWay;
  CHECK(Taken(one) == "POLICY_UNMET");
  one.policy.at_most_copies = 2;
  CHECK(Taken(one) == std::string(kWay) + " via " + kNearer);
}

TEST_CASE("little does not go through another GPU, whose memory has to be allocated first") {
  const Server server;
  Request little = server.To(kFar);
  little.bytes = uint64_t{4} << 20;
  CHECK(Taken(little) == "storage-direct");
}

TEST_CASE("the way through another GPU is offered where all of it is known, and nowhere else") {
  Server server;
  Request request = server.To(kFar);
  const auto gone = [&](const std::string& instead) {
    const Result<Path> plan = MakePlan(request);
    REQUIRE_OK(plan);
    CHECK(plan->path == instead);
    CHECK(plan->via.empty());
    for (const Refusal& refusal : plan->refused) CHECK(refusal.path != kWay);
    // Who asks for it by name is told.
    Request named = request;
    named.policy.path_glob = kWay;
    const Result<Path> refused = MakePlan(named);
    REQUIRE_FALSE(refused.ok());
    const auto& all = refused.status().refusals();
    const auto why = std::find_if(all.begin(), all.end(),
                                  [](const Refusal& refusal) { return refusal.path == kWay; });
    REQUIRE(why != all.end());
    CHECK(why->reason == "NOT_APPLICABLE");
  };
  SECTION("the target is near") {
    request = server.To(kNear);
    gone("storage-direct");
  }
  SECTION("no NVLink") {
    server.gpu(1).nvlink_peers.clear();
    server.gpu(2).nvlink_peers.clear();
    gone("storage-direct");
  }
  SECTION("a hypervisor shows the distances") {
    server.node.topology.virtual_machine = true;
    gone("storage-direct");
  }
  SECTION("nobody knows the drive") {
    request.file->drive = {};
    gone("storage-direct");
  }
  SECTION("an array with a drive on either side") {
    TopologyDevice other = server.node.topology.devices[3];
    other.name = "nvme1n1";
    const Topology before = server.node.topology;
    server.node.topology.devices.push_back(other);
    server.node.topology.distances.assign(Topology::PairCount(5), Distance::kSystem);
    server.Set(0, 4, Distance::kNumaNode);
    server.Set(2, 3, Distance::kSwitches);
    request.file->drive.drives = {"nvme0n1", "nvme1n1"};
    gone("storage-direct");
  }
  SECTION("the other GPUs are lost") {
    for (const size_t i : {1, 2}) {
      server.gpu(i).viability = Viability::No(reasons::kGpuLost, "Xid 79");
    }
    gone("storage-direct");
  }
  SECTION("no drive reaches a GPU") {
    server.node.stores.pop_back();
    gone("storage-bounce");
  }
  SECTION("ranges") {
    request.source_pieces = 2;
    gone("storage-direct");
  }
  SECTION("what is written") {
    std::swap(request.source, request.destination);
    request.file->use = FileUse::kWrite;
    gone("storage-direct");
  }
}

TEST_CASE("where memory on the way could not be had another path is taken") {
  const Server server;
  Request request = server.To(kFar);
  const Result<Path> plan = MakePlan(request);
  REQUIRE_OK(plan);
  request.excluded.push_back(
      Exclusion::Of(*plan, {Code::kFailedPrecondition, reasons::kNoMemory, "the GPU is full"}));
  CHECK(Taken(request) == "storage-direct");
}
