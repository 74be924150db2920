// Lanes by what their pairs were probed at, and by distance where that does not decide.
#include "daemon/plan/lane_rates.h"

#include <algorithm>
#include <map>

#include "daemon/plan/planner.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/topology/servers.h"
#include "transport/topology/discover.h"

using namespace onecopy;
using namespace onecopy::plan;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kPortSpeed = 50'000'000'000;  // NDR

template <typename Plant>
Topology Discovered(Plant plant) {
  TempFolder folder;
  SysfsTree tree(folder.path().string(), 2, 16);
  plant(tree);
  auto found = DiscoverTopology(tree.root());
  REQUIRE_OK(found);
  return *found;
}

// A node with these GPUs and NICs of a server, all NICs on one fabric and of one speed.
NodeCapability NodeOf(const std::string& name, const Topology& topology) {
  NodeCapability node;
  node.node = name;
  node.host = "host-" + name;
  node.topology = topology;
  LinkCapability verbs;
  verbs.name = "verbs";
  verbs.rdma = true;
  for (const TopologyDevice& device : topology.devices) {
    if (device.kind == DeviceKind::kGpu) {
      MemoryCapability gpu;
      gpu.kind = "cuda";
      gpu.device = "GPU-" + device.address;
      gpu.address = device.address;
      node.memories.push_back(std::move(gpu));
    } else if (device.kind == DeviceKind::kNic) {
      NicCapability nic;
      nic.name = device.name;
      nic.fabric = "ib";
      nic.bytes_per_second = kPortSpeed;
      nic.memories = {{"host", {}, {}}, {"cuda", {}, {}}};
      verbs.nics.push_back(std::move(nic));
    }
  }
  node.links.push_back(std::move(verbs));
  return node;
}

// Two such servers, and a lane between each two NICs of the same name.
struct Servers {
  template <typename Plant>
  explicit Servers(Plant plant, const std::string& gpu)
      : topology(Discovered(plant)),
        east(NodeOf("east", topology)),
        west(NodeOf("west", topology)) {
    wire = {"verbs", {"cuda", "GPU-" + gpu}, {"cuda", "GPU-" + gpu}};
    for (const NicCapability& nic : east.links[0].nics) {
      lanes.push_back({nic.name, "fe80::1", nic.name});
    }
  }
  void Probed(const std::string& nic, double rate) {
    estimates.ProbedPair(wire, nic, nic, {{}, rate});
  }
  std::vector<double> Rates() const { return LaneRates(wire, lanes, east, west, estimates); }
  double Rate(const std::string& nic) const {
    const std::vector<double> rates = Rates();
    for (size_t i = 0; i < lanes.size(); ++i) {
      if (lanes[i].device == nic) return rates[i];
    }
    FAIL("no " << nic);
    return 0;
  }
  std::string First() const {
    const std::vector<double> rates = Rates();
    return lanes[static_cast<size_t>(std::max_element(rates.begin(), rates.end()) - rates.begin())]
        .device;
  }

  const Topology topology;
  NodeCapability east;
  NodeCapability west;
  Wire wire;
  std::vector<LaneInfo> lanes;
  Estimates estimates;
};

}  // namespace

TEST_CASE("before any probe the lane whose NIC shares a switch with the GPU carries all") {
  const auto [gpu, nic] = GENERATE(table<const char*, const char*>({{"0000:1b:00.0", "mlx5_0"},
                                                                    {"0000:43:00.0", "mlx5_3"},
                                                                    {"0000:9d:00.0", "mlx5_6"},
                                                                    {"0000:df:00.0", "mlx5_11"}}));
  const Servers servers(PlantDgxH100, gpu);
  CHECK(servers.lanes.size() == 8);
  CHECK(servers.First() == nic);
  CHECK(servers.Rate(nic) > 0.98 * kPortSpeed);
  for (const LaneInfo& lane : servers.lanes) {
    if (lane.device != nic) CHECK(servers.Rate(lane.device) == kLastResort);
  }
}

TEST_CASE("eight GPUs that move at once share eight NICs evenly, each by its own") {
  const Servers servers(PlantDgxH100, "0000:1b:00.0");
  std::map<std::string, double> carried;
  double sum = 0;
  for (const MemoryCapability& gpu : servers.east.memories) {
    const Wire wire{"verbs", {"cuda", gpu.device}, {"cuda", gpu.device}};
    const auto rates = LaneRates(wire, servers.lanes, servers.east, servers.west, {});
    double all = 0;
    for (const double rate : rates) all += rate;
    for (size_t i = 0; i < rates.size(); ++i) {
      carried[servers.lanes[i].device] += rates[i] / all;
      sum += rates[i] / all;
      const Distance distance = servers.topology.Between(gpu.address, servers.lanes[i].device);
      if (distance == Distance::kSystem) CHECK(rates[i] / all < 1e-9);
    }
  }
  REQUIRE(carried.size() == 8);
  for (const auto& [nic, part] : carried) {
    CAPTURE(nic);
    CHECK(part / sum > 0.95 / 8);
    CHECK(part / sum < 1.05 / 8);
  }
}

TEST_CASE("farther NICs carry what the nearest leave of what all were seen to carry") {
  Servers servers(PlantDgxH100, "0000:1b:00.0");
  for (const LaneInfo& lane : servers.lanes) servers.Probed(lane.device, 40e9);
  SECTION("nothing, where all carry less than a tenth more") {
    servers.estimates.MeasuredWire(servers.wire, 43e9, 1e-5);
    CHECK(servers.Rate("mlx5_0") > 39e9);
    CHECK(servers.Rate("mlx5_4") == kLastResort);
  }
  SECTION("the rest, where the memory has more than its own NIC carries") {
    servers.estimates.MeasuredWire(servers.wire, 54e9, 1e-5);
    double far = 0;
    for (const LaneInfo& lane : servers.lanes) {
      if (lane.device != "mlx5_0") far += servers.Rate(lane.device);
    }
    CHECK(servers.Rate("mlx5_0") > 39e9);
    CHECK(far > 13e9);
    CHECK(far < 14.1e9);
  }
  SECTION("and they count again once the nearest has failed") {
    servers.estimates.MeasuredWire(servers.wire, 43e9, 1e-5);
    servers.estimates.ProbedPair(servers.wire, "mlx5_0", "mlx5_0",
                                 {Viability::No(reasons::kNicUnreachable, "no answer"), 0});
    CHECK(servers.Rate("mlx5_0") == 0);
    CHECK(servers.Rate(servers.First()) > 39e9);
  }
}

TEST_CASE("memories near to different rails go by the rails of either") {
  Servers servers(PlantDgxH100, "0000:1b:00.0");
  servers.wire.destination.device = "GPU-0000:9d:00.0";
  for (const LaneInfo& lane : servers.lanes) {
    const bool near = lane.device == "mlx5_0" || lane.device == "mlx5_6";
    CHECK((servers.Rate(lane.device) > 0.98 * kPortSpeed) == near);
  }
}

TEST_CASE("several lanes of one pair count as one") {
  Servers servers(PlantDgxH100, "0000:1b:00.0");
  const std::vector<LaneInfo> once = servers.lanes;
  servers.lanes.insert(servers.lanes.end(), once.begin(), once.end());
  for (const LaneInfo& lane : once) servers.Probed(lane.device, 40e9);
  servers.estimates.MeasuredWire(servers.wire, 60e9, 1e-5);
  CHECK(servers.Rate("mlx5_4") > 1e9);
}

TEST_CASE("the nearest lanes are those whose two ends together are nearest to the memories") {
  const Servers servers(PlantDgxH100, "0000:1b:00.0");
  const auto nearest = [&](const Wire& wire) {
    std::vector<std::string> names;
    const auto near =
        NearestLanes(wire, servers.lanes, servers.Rates(), servers.east, servers.west);
    for (size_t i = 0; i < near.size(); ++i) {
      if (near[i]) names.push_back(servers.lanes[i].device);
    }
    return names;
  };
  CHECK(nearest(servers.wire) == std::vector<std::string>{"mlx5_0"});
  // Host memory is near to all.
  Wire host = servers.wire;
  host.source = host.destination = {"host", {}};
  CHECK(nearest(host).size() == servers.lanes.size());
}

TEST_CASE("a lane whose probe failed is not among the nearest") {
  Servers servers(PlantDgxH100, "0000:1b:00.0");
  servers.estimates.ProbedPair(servers.wire, "mlx5_0", "mlx5_0",
                               {Viability::No("NIC_UNREACHABLE", "no answer"), 0});
  const auto near =
      NearestLanes(servers.wire, servers.lanes, servers.Rates(), servers.east, servers.west);
  for (size_t i = 0; i < near.size(); ++i) {
    CHECK((!near[i] || servers.lanes[i].device != "mlx5_0"));
  }
  CHECK(std::count(near.begin(), near.end(), true) > 0);
}

TEST_CASE("what was measured counts before distance, and near figures count as one") {
  Servers servers(PlantDgxH100, "0000:1b:00.0");
  servers.Probed("mlx5_0", 15e9);  // behind a bridge that is slow
  servers.Probed("mlx5_9", 47e9);
  servers.Probed("mlx5_4", 44e9);
  CHECK(servers.First() == "mlx5_4");  // within 10 % of the best, and nearer
  CHECK(servers.Rate("mlx5_0") < 15.1e9);
  CHECK(servers.Rate("mlx5_9") > 46e9);
  // Of what nothing is known is not taken for better than the slowest.
  CHECK(servers.Rate("mlx5_5") < 15.1e9);
  CHECK(servers.Rate("mlx5_5") > 14e9);
}

TEST_CASE("a lane whose pair failed its probe is the last resort") {
  Servers servers(PlantDgx2, "0000:15:00.0");
  servers.estimates.ProbedPair(servers.wire, "mlx5_0", "mlx5_0",
                               {Viability::No(reasons::kNicUnreachable, "no answer"), 0});
  CHECK(servers.Rate("mlx5_0") == 0);
  CHECK(servers.Rate("mlx5_1") > kLastResort);
}

TEST_CASE("in a virtual machine, and for host memory, no lane is nearer than another") {
  Servers virtual_machine(PlantEc2P4d, "0000:10:1c.0");
  const std::vector<double> flat = virtual_machine.Rates();
  REQUIRE(flat.size() > 1);
  CHECK(std::count(flat.begin(), flat.end(), flat.front()) == static_cast<long>(flat.size()));
  Servers host(PlantDgxH100, "0000:1b:00.0");
  host.wire = {"verbs", {"host", {}}, {"host", {}}};
  for (const double rate : host.Rates()) CHECK(rate == static_cast<double>(kPortSpeed));
}

TEST_CASE("a NIC of which its node says nothing is taken for a slow one") {
  Servers servers(PlantDgxH100, "0000:1b:00.0");
  servers.lanes[3].device = "mlx5_77";
  servers.east.links[0].nics[3].bytes_per_second = 0;
  for (const double rate : servers.Rates()) CHECK(rate > 0);
  servers.lanes.clear();
  CHECK(servers.Rates().empty());
}
