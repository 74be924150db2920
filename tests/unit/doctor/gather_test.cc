// What the doctor reads of a machine, from planted files and from this one.
#include "client/doctor/gather.h"

#include "client/doctor/diagnose.h"
#include "client/doctor/gather_parts.h"
#include "tests/support/catch.h"
#include "tests/support/sysfs_tree.h"
#include "tests/support/temp_folder.h"

using namespace onecopy;
using namespace onecopy::doctor;
using namespace onecopy::testing;

namespace {

// One GPU and one NIC below a switch, and what else a root has that is well.
class Machine {
 public:
  Machine() : tree(folder_.path().string(), 2, 4) {
    tree.Write("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n");
    tree.Write("proc/cmdline", "BOOT_IMAGE=/vmlinuz quiet iommu=pt\n");
    tree.Write("proc/modules", "mlx5_ib 1 0 - Live 0x0\nnvidia_peermem 1 0 - Live 0x0\n");
    tree.Write("proc/self/limits",
               "Limit                     Soft Limit           Hard Limit           Units\n"
               "Max locked memory         unlimited            unlimited            bytes\n");
    tree.Write("proc/self/status", "Name:\tdoctor\nCapEff:\t0000000000000000\n");
    tree.Write("boot/config-6.1.0-13-amd64",
               "#\nCONFIG_DMA_SHARED_BUFFER=y\nCONFIG_INFINIBAND_ON_DEMAND_PAGING=y\n");
    tree.Write("dev/infiniband/uverbs0", "");
    tree.Write("dev/infiniband/rdma_cm", "");  // opens no device
  }

  void PlantDevices(bool acs_redirect = false, bool no_config = false) {
    Pci port_for_nic = PciPort("0000:17:00.0", {PciNic("0000:18:00.0")});
    Pci port_for_gpu = PciPort("0000:17:01.0", {PciGpu("0000:1b:00.0")});
    port_for_gpu.acs_redirect = acs_redirect;
    port_for_gpu.no_config = no_config;
    tree.AddHostBridge(
        "0000:15", 0,
        {PciPort("0000:15:01.0", {PciSwitch("0000:16:00.0", {port_for_nic, port_for_gpu})})});
    RdmaPort port;
    port.netdev = "eth1";
    tree.AddRdma("mlx5_0", "0000:18:00.0", port);
  }

  Facts Look() { return Gather({.root = tree.root()}); }

 private:
  TempFolder folder_;

 public:
  SysfsTree tree;
};

}  // namespace

TEST_CASE("a planted machine is read") {
  Machine machine;
  machine.PlantDevices();
  machine.tree.Write("sys/devices/pci0000:15/group/type", "DMA-FQ\n");
  machine.tree.Link("sys/bus/pci/devices/0000:18:00.0/iommu_group", "sys/devices/pci0000:15/group");
  machine.tree.Link("sys/bus/pci/devices/0000:18:00.0/driver", "sys/bus/pci/drivers/mlx5_core");
  const Facts facts = machine.Look();
  REQUIRE(facts.nics.size() == 1);
  CHECK(facts.nics[0].driver == "mlx5_core");
  CHECK(facts.nics[0].address == "0000:18:00.0");
  REQUIRE(facts.nics[0].ports.size() == 1);
  const onecopy::doctor::Port& port = facts.nics[0].ports[0];
  CHECK(port.active());
  CHECK(port.ethernet());
  CHECK(port.HasRoceV2());
  CHECK(port.bytes_per_second == 50'000'000'000);
  CHECK(port.netdev == "eth1");
  CHECK(port.netdev_mtu == 9000);
  REQUIRE(facts.gpus.size() == 1);
  CHECK(facts.gpus[0].address == "0000:1b:00.0");
  CHECK(facts.gpus[0].nvidia);
  CHECK(facts.gpus[0].bar1_bytes == uint64_t{128} << 30);
  CHECK(facts.topology.Between("0000:1b:00.0", "mlx5_0") == Distance::kSameSwitch);
  CHECK(facts.kernel.major == 6);
  CHECK(facts.kernel.minor == 1);
  CHECK(facts.kernel.options_off.empty());
  CHECK(facts.kernel.peermem == true);
  CHECK(facts.kernel.command_line.find("iommu=pt") != std::string::npos);
  CHECK(facts.memlock.unlimited);
  REQUIRE(facts.device_files.size() == 1);
  CHECK(facts.device_files[0].error.empty());
  REQUIRE(facts.iommu.size() == 1);
  CHECK(facts.iommu[0].type == "DMA-FQ");
  CHECK(facts.acs.redirecting.empty());
  CHECK(facts.acs.unreadable.empty());
  CHECK_FALSE(facts.daemon.answered);
}

TEST_CASE("bridges that redirect, and bridges that are hidden") {
  SECTION("redirecting") {
    Machine machine;
    machine.PlantDevices(true);
    const Facts facts = machine.Look();
    CHECK(facts.acs.redirecting == std::vector<std::string>{"0000:17:01.0"});
    CHECK(Diagnose(facts).Find("ACS_IN_THE_WAY") != nullptr);
  }
  SECTION("hidden") {
    Machine machine;
    machine.PlantDevices(false, true);
    const Facts facts = machine.Look();
    CHECK(facts.acs.redirecting.empty());
    CHECK(facts.acs.unreadable == std::vector<std::string>{"0000:17:01.0"});
    CHECK(Diagnose(facts).Find("ACS_NOT_CHECKED") != nullptr);
  }
}

TEST_CASE("an extended capability list that goes in circles ends") {
  Machine machine;
  machine.PlantDevices();
  std::string config(4096, '\0');
  config[0x0e] = 1;
  config[0x19] = 0x1b;
  config[0x1a] = 0x1b;
  config[0x100] = 0x01;
  config[0x102] = 0x01;
  config[0x103] = 0x10;  // next: 0x100 again
  machine.tree.Write("sys/bus/pci/devices/0000:17:01.0/config", config);
  const Facts facts = machine.Look();
  CHECK(facts.acs.redirecting.empty());
}

TEST_CASE("limits, old kernels and missing modules are seen") {
  Machine machine;
  machine.PlantDevices();
  machine.tree.Write("proc/self/limits", "Max locked memory         65536   65536   bytes\n");
  machine.tree.Write("proc/sys/kernel/osrelease", "5.10.0-28-amd64\n");
  machine.tree.Write("boot/config-5.10.0-28-amd64",
                     "#\n# CONFIG_DMA_SHARED_BUFFER is not set\n"
                     "CONFIG_INFINIBAND_ON_DEMAND_PAGING=y\n");
  machine.tree.Write("proc/modules", "mlx5_ib 1 0 - Live 0x0\n");
  CHECK(machine.Look().huge_pages.empty());
  const std::string huge_pages = "sys/kernel/mm/transparent_hugepage/enabled";
  machine.tree.Write(huge_pages, "always [madvise] never\n");
  CHECK(machine.Look().huge_pages == "madvise");
  CHECK(Diagnose(machine.Look()).Find("HUGE_PAGES_OFF") == nullptr);
  machine.tree.Write(huge_pages, "always madvise [never]\n");
  Facts facts = machine.Look();
  CHECK(facts.huge_pages == "never");
  CHECK(facts.memlock.bytes == 65536);
  CHECK_FALSE(facts.memlock.unlimited);
  CHECK(facts.kernel.options_off == std::vector<std::string>{"CONFIG_DMA_SHARED_BUFFER"});
  CHECK(facts.kernel.peermem == false);
  const Diagnosis diagnosis = Diagnose(facts);
  for (const char* code :
       {"MEMLOCK_LIMIT", "HUGE_PAGES_OFF", "DMABUF_UNSUPPORTED_KERNEL", "PEERMEM_ABSENT"}) {
    INFO(code);
    CHECK(diagnosis.Find(code) != nullptr);
  }

  // CAP_IPC_LOCK lifts the limit.
  machine.tree.Write("proc/self/status", "CapEff:\t0000000000004000\n");
  CHECK(machine.Look().memlock.unlimited);
}

TEST_CASE("ports that are down and GIDs that are missing are seen") {
  Machine machine;
  machine.tree.AddHostBridge(
      "0000:15", 0, {PciPort("0000:15:01.0", {PciNic("0000:18:00.0"), PciNic("0000:18:00.1")})});
  RdmaPort down;
  down.state = "1: DOWN";
  machine.tree.AddRdma("mlx5_0", "0000:18:00.0", down);
  RdmaPort old;
  old.gids = {{"fe80:0000:0000:0000:0000:0000:0000:0001", "IB/RoCE v1"},
              {"0000:0000:0000:0000:0000:0000:0000:0000", "RoCE v2"}};
  machine.tree.AddRdma("mlx5_1", "0000:18:00.1", old);
  const Facts facts = machine.Look();
  REQUIRE(facts.nics.size() == 2);
  CHECK(facts.nics[0].ports[0].state == "DOWN");
  CHECK(facts.nics[1].ports[0].gids.size() == 1);
  const Diagnosis diagnosis = Diagnose(facts);
  REQUIRE(diagnosis.Find("PORT_DOWN") != nullptr);
  CHECK(diagnosis.Find("PORT_DOWN")->severity == Severity::kBlocks);
  CHECK(diagnosis.Find("NO_ROCE_V2_GID") != nullptr);
}

TEST_CASE("an empty root is a machine of which nothing is known") {
  TempFolder folder;
  SysfsTree tree(folder.path().string(), 1, 2);
  const Facts facts = Gather({.root = tree.root()});
  CHECK_FALSE(facts.memlock.known);
  CHECK(facts.kernel.major == 0);
  CHECK_FALSE(facts.kernel.peermem.has_value());
  const Diagnosis diagnosis = Diagnose(facts);
  CHECK(diagnosis.Find("NO_RDMA_DEVICE") != nullptr);
  CHECK(diagnosis.Find("NO_GPU") != nullptr);
  CHECK(diagnosis.Find("NOT_PROVEN") != nullptr);
  CHECK(diagnosis.Find("MEMLOCK_LIMIT") == nullptr);
}

TEST_CASE("a UCX's modules tell what it brings") {
  TempFolder folder;
  SysfsTree tree(folder.path().string(), 1, 2);
  for (const char* name : {"libucp.so.0", "ucx/libuct_ib.so", "ucx/libuct_ib.so.0",
                           "ucx/libuct_rdmacm.so.0", "ucx/libucx_perftest_cuda.so.0"}) {
    tree.Write(name, "");
  }
  Ucx ucx;
  ReadUcxModules(tree.root() + "/libucp.so.0", ucx);
  CHECK(ucx.modules == std::vector<std::string>{"libuct_ib", "libuct_rdmacm"});
  CHECK(ucx.verbs);
  CHECK_FALSE(ucx.cuda);
  tree.Write("ucx/libuct_cuda.so.0", "");
  ReadUcxModules(tree.root() + "/libucp.so.0", ucx);
  CHECK(ucx.cuda);
}

TEST_CASE("this machine is looked at, without a daemon") {
  TempFolder folder;
  GatherOptions options;
  options.run_dir = folder.path().string();
  const Facts facts = Gather(options);
  CHECK_FALSE(facts.daemon.answered);
  CHECK_FALSE(facts.daemon.why_not.empty());
  CHECK(facts.kernel.major > 0);
  CHECK(facts.memlock.known);
  CHECK((facts.driver.found || !facts.driver.detail.empty()));
  CHECK((facts.ucx.found || !facts.ucx.detail.empty()));
  const Diagnosis diagnosis = Diagnose(facts);
  CHECK_FALSE(diagnosis.works);
  CHECK(diagnosis.Find("NOT_PROVEN") != nullptr);
}
