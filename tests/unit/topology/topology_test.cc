// The value by itself.
#include "onecopy/topology.h"

#include "tests/support/catch.h"

using namespace onecopy;

namespace {

Topology Three() {
  Topology topology;
  topology.devices = {{DeviceKind::kGpu, "0000:1b:00.0", "0000:1b:00.0", 0, "0-15"},
                      {DeviceKind::kNic, "mlx5_0", "0000:18:00.0", 0, "0-15"},
                      {DeviceKind::kNic, "mlx5_1", "0000:9a:00.0", 1, "16-31"}};
  topology.distances = {Distance::kSameSwitch, Distance::kSystem, Distance::kNumaNode};
  return topology;
}

}  // namespace

TEST_CASE("PCI addresses are one however they are spelt") {
  CHECK(NormalPciAddress("0000:1b:00.0") == "0000:1b:00.0");
  CHECK(NormalPciAddress("00000000:1B:00.0") == "0000:1b:00.0");
  CHECK(NormalPciAddress("1B:00.0") == "0000:1b:00.0");
  CHECK(NormalPciAddress("10000:01:1f.7") == "10000:01:1f.7");
  for (const char* bad : {"", "mlx5_0", "0000:1b:00", "0000:1b:00.0 ", "0000:1b:00.10", ":::.",
                          "0000:0000:1b:00.0", "0000:1b:000.0", "g000:1b:00.0"}) {
    INFO(bad);
    CHECK_FALSE(NormalPciAddress(bad).has_value());
  }
}

TEST_CASE("every pair has a place of its own") {
  Topology topology;
  topology.devices.resize(7);
  std::vector<int> seen(Topology::PairCount(7));
  for (size_t i = 0; i < 7; ++i) {
    for (size_t j = i + 1; j < 7; ++j) {
      CHECK(topology.PairIndex(i, j) == topology.PairIndex(j, i));
      ++seen.at(topology.PairIndex(i, j));
    }
  }
  CHECK(seen == std::vector<int>(21, 1));
  CHECK(Topology::PairCount(0) == 0);
  CHECK(Topology::PairCount(1) == 0);
}

TEST_CASE("devices are found by name and by address") {
  const Topology topology = Three();
  CHECK(topology.Between("mlx5_0", "00000000:1B:00.0") == Distance::kSameSwitch);
  CHECK(topology.Between("mlx5_1", "1b:00.0") == Distance::kSystem);
  CHECK(topology.Between("mlx5_1", "mlx5_0") == Distance::kNumaNode);
  CHECK(topology.Between("mlx5_1", "mlx5_1") == Distance::kSameSwitch);
  CHECK(topology.Between("mlx5_1", "mlx5_7") == Distance::kUnknown);
  CHECK(topology.Between("mlx5_1:2", "mlx5_0:1") == Distance::kNumaNode);
  CHECK(topology.Between("mlx5_7:2", "mlx5_0:1") == Distance::kUnknown);
  CHECK(topology.Between(":::", "mlx5_0") == Distance::kUnknown);
  CHECK(topology.Between("", "mlx5_0") == Distance::kUnknown);
  CHECK(topology.NumaNodeOf("mlx5_1") == 1);
  CHECK(topology.NumaNodeOf("mlx5_2") == -1);
}

TEST_CASE("a topology with distances missing says unknown") {
  Topology topology = Three();
  topology.distances.clear();
  CHECK(topology.Between(0, 1) == Distance::kUnknown);
  CHECK(topology.Between(0, 9) == Distance::kUnknown);
}

TEST_CASE("names of kinds and distances are read back") {
  for (const Distance distance : {Distance::kSameSwitch, Distance::kSwitches, Distance::kHostBridge,
                                  Distance::kNumaNode, Distance::kSystem, Distance::kUnknown}) {
    CHECK(ParseDistance(DistanceName(distance)) == distance);
  }
  CHECK_FALSE(ParseDistance("pix").has_value());
  for (const DeviceKind kind : {DeviceKind::kGpu, DeviceKind::kNic, DeviceKind::kNvme}) {
    CHECK(ParseDeviceKind(DeviceKindName(kind)) == kind);
  }
}

TEST_CASE("the matrix has a row for each device") {
  const auto rows = MatrixRows(Three());
  REQUIRE(rows.size() == 4);
  CHECK(rows[0] == std::vector<std::string>{"#", "DEVICE", "0", "1", "2", "NUMA", "CPUS"});
  CHECK(rows[2] == std::vector<std::string>{"1", "mlx5_0", "PIX", "X", "NODE", "0", "0-15"});
}
