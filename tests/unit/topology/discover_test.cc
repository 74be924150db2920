// What hwloc reads of machines that are not here, as distances.
#include "transport/topology/discover.h"

#include <cstdlib>
#include <map>

#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/topology/servers.h"

using namespace onecopy;
using namespace onecopy::testing;

namespace {

// A machine of two sockets with 16 processors each.
class Server {
 public:
  template <typename Plant>
  explicit Server(Plant plant) : folder_(), tree_(folder_.path().string(), 2, 16) {
    plant(tree_);
    auto found = DiscoverTopology(tree_.root());
    REQUIRE_OK(found);
    topology = *found;
  }

  SysfsTree& tree() { return tree_; }

  Topology topology;

  // Distances from a device to several, as one text.
  std::string Row(const std::string& from, const std::vector<std::string>& to) const {
    std::string text;
    for (const std::string& name : to) {
      text += (text.empty() ? "" : " ") + std::string(DistanceName(topology.Between(from, name)));
    }
    return text;
  }

  std::vector<std::string> Names(DeviceKind kind) const {
    std::vector<std::string> names;
    for (const TopologyDevice& device : topology.devices) {
      if (device.kind == kind) names.push_back(device.name);
    }
    return names;
  }

 private:
  TempFolder folder_;
  SysfsTree tree_;
};

}  // namespace

TEST_CASE("DGX H100: each GPU shares a switch with its own NIC") {
  const Server server(PlantDgxH100);
  const std::vector<std::string> nics = {"mlx5_0", "mlx5_3", "mlx5_4",  "mlx5_5",
                                         "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11"};
  REQUIRE(server.Names(DeviceKind::kGpu).size() == 8);
  CHECK_FALSE(server.topology.virtual_machine);
  CHECK(server.Row("0000:1b:00.0", nics) == "PIX NODE NODE NODE SYS SYS SYS SYS");
  CHECK(server.Row("0000:43:00.0", nics) == "NODE PIX NODE NODE SYS SYS SYS SYS");
  CHECK(server.Row("0000:61:00.0", nics) == "NODE NODE NODE PIX SYS SYS SYS SYS");
  CHECK(server.Row("0000:9d:00.0", nics) == "SYS SYS SYS SYS PIX NODE NODE NODE");
  CHECK(server.Row("0000:df:00.0", nics) == "SYS SYS SYS SYS NODE NODE NODE PIX");
  CHECK(server.topology.NumaNodeOf("0000:1b:00.0") == 0);
  CHECK(server.topology.NumaNodeOf("mlx5_11") == 1);
  const auto gpu = server.topology.Find("0000:df:00.0");
  REQUIRE(gpu.has_value());
  CHECK(server.topology.devices[*gpu].cpus == "16-31");
  CHECK(server.Names(DeviceKind::kNvme) == std::vector<std::string>{"nvme0n1", "nvme1n1"});
  CHECK(server.Row("nvme0n1", {"nvme1n1", "0000:1b:00.0", "0000:df:00.0"}) == "PHB NODE SYS");
}

TEST_CASE("threads and slots go where the devices are") {
  const Server dgx(PlantDgxH100);
  using Cpus = std::vector<std::string>;
  CHECK(dgx.topology.PlaceThreads({"mlx5_0", "mlx5_5"}, 2) == Cpus{"0-15", "0-15"});
  CHECK(dgx.topology.PlaceThreads({"mlx5_11:1"}, 1) == Cpus{"16-31"});
  // Of both sockets: shared out, where there are enough.
  const std::vector<std::string> both = {"mlx5_6", "mlx5_0"};
  CHECK(dgx.topology.PlaceThreads(both, 1) == Cpus{""});
  CHECK(dgx.topology.PlaceThreads(both, 3) == Cpus{"0-15", "16-31", "0-15"});
  CHECK(dgx.topology.PlaceThreads({"mlx5_0", "rxe0"}, 1) == Cpus{""});
  CHECK(dgx.topology.PlaceThreads({}, 1) == Cpus{""});
  CHECK(dgx.topology.CommonNumaNode({"mlx5_6", "0000:df:00.0"}) == 1);
  CHECK(dgx.topology.CommonNumaNode(both) == -1);
  CHECK(dgx.topology.CommonNumaNode({"rxe0"}) == -1);
  CHECK(dgx.topology.CommonNumaNode({}) == -1);

  const Server ec2(PlantEc2P4d);
  CHECK(ec2.topology.PlaceThreads({"rdmap0"}, 1) == Cpus{""});
  CHECK(ec2.topology.CommonNumaNode({"rdmap0"}) == -1);
}

TEST_CASE("DGX-2: two switches deep") {
  const Server server(PlantDgx2);
  REQUIRE(server.Names(DeviceKind::kGpu).size() == 16);
  const std::vector<std::string> gpus = server.Names(DeviceKind::kGpu);  // in order of their buses
  const std::vector<std::string> nics = {"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4"};
  CHECK(server.Row(gpus[0], nics) == "PIX PXB NODE NODE SYS");
  CHECK(server.Row(gpus[1], nics) == "PIX PXB NODE NODE SYS");
  CHECK(server.Row(gpus[2], nics) == "PXB PIX NODE NODE SYS");
  CHECK(server.Row(gpus[3], nics) == "PXB PIX NODE NODE SYS");
  CHECK(server.Row(gpus[4], nics) == "NODE NODE PIX PXB SYS");
}

TEST_CASE("two sockets, one NIC") {
  const Server server(PlantTwoSockets);
  const std::vector<std::string> gpus = server.Names(DeviceKind::kGpu);
  REQUIRE(gpus.size() == 8);
  CHECK(server.Row("mlx5_0", gpus) == "SYS SYS SYS SYS PHB PHB PHB PHB");
  CHECK(server.Row(gpus[0], gpus) == "PIX PIX PXB PXB SYS SYS SYS SYS");
  CHECK(server.Row(gpus[4], gpus) == "SYS SYS SYS SYS PIX PIX PXB PXB");
}

TEST_CASE("a virtual machine's distances are shown and not believed") {
  const Server server(PlantEc2P4d);
  CHECK(server.topology.virtual_machine);
  REQUIRE(server.Names(DeviceKind::kGpu).size() == 8);
  const auto gpu = server.topology.Find("0000:10:1c.0");
  const auto nic = server.topology.Find("rdmap0");
  REQUIRE(gpu.has_value());
  REQUIRE(nic.has_value());
  CHECK(server.topology.Claimed(*gpu, *nic) == Distance::kHostBridge);
  CHECK(server.topology.Between(*gpu, *nic) == Distance::kUnknown);
  CHECK(server.Row("0000:10:1c.0", {"0000:10:1d.0", "rdmap0", "0000:10:1c.0"}) ==
        "UNKNOWN UNKNOWN PIX");
  CHECK(server.Names(DeviceKind::kNvme).size() == 8);
}

TEST_CASE("software RDMA devices are near to nothing") {
  const Server server([](SysfsTree& tree) {
    PlantTwoSockets(tree);
    tree.AddRdma("rxe0", "");
    // siw names the PCI device of the network card that it sits on.
    tree.AddRdma("siw0", "0000:90:00.0");
    tree.Write("sys/class/infiniband/siw0/node_desc", "Software iWARP stack\n");
    // rxe whose description somebody changed, as rdma-ndd does.
    tree.AddRdma("rxe1", "0000:90:00.0");
    tree.Write("sys/class/infiniband/rxe1/parent", "eth0\n");
  });
  for (const std::string name : {"rxe0", "rxe1", "siw0"}) {
    INFO(name);
    const auto found = server.topology.Find(name);
    REQUIRE(found.has_value());
    CHECK(server.topology.devices[*found].emulated);
    CHECK(server.topology.devices[*found].numa_node == -1);
    CHECK(server.topology.Between(name, "mlx5_0") == Distance::kUnknown);
  }
  CHECK_FALSE(server.topology.devices[*server.topology.Find("mlx5_0")].emulated);
}

TEST_CASE("firmware that does not say the NUMA node leaves distances open") {
  const Server server([](SysfsTree& tree) {
    tree.AddHostBridge("0000:10", -1, {PciPort("0000:10:01.0", {PciGpu("0000:11:00.0")})});
    tree.AddHostBridge("0000:20", -1, {PciPort("0000:20:01.0", {PciNic("0000:21:00.0")})});
    tree.AddRdma("mlx5_0", "0000:21:00.0");
  });
  CHECK(server.Row("0000:11:00.0", {"mlx5_0"}) == "UNKNOWN");
  CHECK(server.topology.NumaNodeOf("mlx5_0") == -1);
}

TEST_CASE("two RDMA devices of one PCI function, and functions below one port") {
  const Server server([](SysfsTree& tree) {
    tree.AddHostBridge("0000:20", 1,
                       {PciPort("0000:20:01.0", {PciNic("0000:21:00.0"), PciNic("0000:21:00.1")})});
    tree.AddRdma("mlx5_0", "0000:21:00.0");
    tree.AddRdma("mlx5_1", "0000:21:00.1");
    tree.AddRdma("mlx5_2", "0000:21:00.1");
  });
  CHECK(server.Row("mlx5_1", {"mlx5_0", "mlx5_2"}) == "PIX PIX");
}

TEST_CASE("AMD's GPUs count, and other vendors' displays do not") {
  const Server server([](SysfsTree& tree) {
    Pci instinct = PciGpu("0000:11:00.0");
    instinct.vendor = 0x1002;
    instinct.class_code = 0x120000;
    Pci console = PciGpu("0000:11:01.0");
    console.vendor = 0x1a03;
    tree.AddHostBridge("0000:10", 0, {PciPort("0000:10:01.0", {instinct, console})});
  });
  CHECK(server.Names(DeviceKind::kGpu) == std::vector<std::string>{"0000:11:00.0"});
}

TEST_CASE("virtual machines are known by flag or firmware, metal is not") {
  TempFolder folder;
  SysfsTree tree(folder.path().string(), 1, 4);
  const auto with = [&tree](const std::string& vendor, const std::string& product) {
    tree.Write("sys/class/dmi/id/sys_vendor", vendor + "\n");
    tree.Write("sys/class/dmi/id/product_name", product + "\n");
    return VirtualMachineEvidence(tree.root());
  };
  CHECK(with("NVIDIA", "DGXH100").empty());
  CHECK(with("Amazon EC2", "p5.48xlarge") == "DMI: Amazon EC2 p5.48xlarge");
  CHECK(with("Amazon EC2", "c7g.metal").empty());
  CHECK_FALSE(with("QEMU", "Standard PC (Q35 + ICH9, 2009)").empty());
  CHECK(with("Microsoft Corporation", "Surface").empty());
  CHECK_FALSE(with("Microsoft Corporation", "Virtual Machine").empty());
  tree.MakeVirtual();
  CHECK(with("NVIDIA", "DGXH100") == "the cpu flag hypervisor");
}

TEST_CASE("this machine can be read, and another root leaves no trace in the environment") {
  TempFolder folder;
  SysfsTree tree(folder.path().string(), 1, 2);
  REQUIRE_OK(DiscoverTopology(tree.root()));
  CHECK(std::getenv("HWLOC_FSROOT") == nullptr);
  const auto here = DiscoverTopology();
  REQUIRE_OK(here);
  CHECK(here->distances.size() == Topology::PairCount(here->devices.size()));
  CHECK(here->source == "hwloc");
}
