// Two servers of eight GPUs and eight NICs, whose bytes really go by the lanes that the planner's
// rates choose.
#include <map>

#include "daemon/plan/lane_rates.h"
#include "tests/support/memory.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/topology/servers.h"
#include "tests/unit/verbs/fake_pair.h"
#include "transport/topology/discover.h"

using namespace onecopy;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kGpuBytes = 4 << 20;
constexpr uint64_t kPiece = 1 << 16;

NodeCapability DgxH100(const std::string& name) {
  TempFolder folder;
  SysfsTree tree(folder.path().string(), 2, 16);
  PlantDgxH100(tree);
  auto topology = DiscoverTopology(tree.root());
  REQUIRE_OK(topology);
  NodeCapability node;
  node.node = name;
  node.topology = *topology;
  LinkCapability verbs;
  verbs.name = "verbs";
  for (const TopologyDevice& device : topology->devices) {
    if (device.kind == DeviceKind::kGpu) {
      MemoryCapability gpu;
      gpu.kind = "cuda";
      gpu.device = device.address;
      gpu.address = device.address;
      node.memories.push_back(std::move(gpu));
    } else if (device.kind == DeviceKind::kNic) {
      NicCapability nic;
      nic.name = device.name;
      nic.bytes_per_second = 50'000'000'000;
      verbs.nics.push_back(std::move(nic));
    }
  }
  node.links.push_back(std::move(verbs));
  return node;
}

}  // namespace

TEST_CASE("the bytes of eight GPUs go over eight NICs evenly, and none crosses sockets") {
  const NodeCapability east = DgxH100("east");
  const NodeCapability west = DgxH100("west");
  FakeVerbs().Reset();
  uint8_t number = 1;
  std::vector<std::string> names;
  for (const NicCapability& nic : east.links[0].nics) {
    PlantDevice(nic.name, {InfiniBandPort(number++)});
    names.push_back(nic.name);
  }
  REQUIRE(names.size() == 8);
  LinkPair pair{FakeLink("east", names), FakeLink("west", names)};
  auto connected = Connect(pair);
  REQUIRE_OK(connected);
  const std::vector<LaneInfo>& lanes = connected->reader->lanes();
  REQUIRE(lanes.size() == 8);
  for (const LaneInfo& lane : lanes) CHECK(lane.device == lane.peer_device);

  std::vector<std::future<Got>> gets;
  std::vector<std::string> gpu_of;
  std::vector<RemoteKey> keys;
  std::vector<RegionRef> regions;
  std::vector<std::vector<double>> rates;
  for (const MemoryCapability& gpu : east.memories) {
    const plan::Wire wire{"verbs", {"cuda", gpu.device}, {"cuda", gpu.device}};
    rates.push_back(plan::LaneRates(wire, lanes, east, west, {}));
    const RegionRef source = HostRegion(kGpuBytes);
    Fill({source, 0, kGpuBytes}, rates.size());
    auto key = connected->Export({source, 0, kGpuBytes});
    REQUIRE_OK(key);
    keys.push_back(*key);
    regions.push_back(source);
    regions.push_back(HostRegion(kGpuBytes));
  }
  REQUIRE(keys.size() == 8);
  // All at once, as when every GPU of a job moves its part.
  for (uint64_t at = 0; at < kGpuBytes; at += kPiece) {
    for (size_t i = 0; i < keys.size(); ++i) {
      gets.push_back(connected->StartGet(
          {i + 1, &keys[i], at, {regions[2 * i + 1], at, kPiece}, GetRequest::kAnyLane, rates[i]}));
      gpu_of.push_back(east.memories[i].address);
    }
  }
  for (size_t i = 0; i < gets.size(); ++i) {
    const Got got = gets[i].get();
    REQUIRE_OK(got.status);
    CHECK(east.topology.Between(gpu_of[i], lanes[got.lane].device) == Distance::kSameSwitch);
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    CHECK(FirstWrong({regions[2 * i + 1], 0, kGpuBytes}, i + 1) == kGpuBytes);
  }
  std::map<std::string, uint64_t> bytes;
  for (const auto& one : FakeVerbs().QueuePairs()) bytes[one.device] += one.bytes_read;
  REQUIRE(bytes.size() == 8);
  for (const auto& [nic, read] : bytes) {
    CAPTURE(nic);
    CHECK(static_cast<double>(read) > 0.95 * kGpuBytes);
    CHECK(static_cast<double>(read) < 1.05 * kGpuBytes);
  }
}
