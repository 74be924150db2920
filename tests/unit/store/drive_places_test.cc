// Where files are on machines that are not here.
#include "transport/store/posix/drive_places.h"

#include <linux/magic.h>
#include <sys/sysmacros.h>

#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/sysfs_tree.h"
#include "tests/support/temp_folder.h"

using namespace onecopy;
using namespace onecopy::posix;
using namespace onecopy::testing;

namespace {

const FileSystemKind& Ext4() { return KindOf(EXT4_SUPER_MAGIC); }

TopologyDevice Nvme(const std::string& name, const std::string& address, int32_t node,
                    const std::string& cpus) {
  TopologyDevice device;
  device.kind = DeviceKind::kNvme;
  device.name = name;
  device.address = address;
  device.numa_node = node;
  device.cpus = cpus;
  return device;
}

// A drive on each socket, an array of both, and a SATA disk, of which hwloc says nothing.
struct Server {
  explicit Server(int nodes = 2) : tree(folder.path().string(), nodes, 4) {
    const int second = nodes - 1;
    tree.AddHostBridge("0000:10", 0, {PciNvme("0000:11:00.0"), {"0000:13:00.0", 0x010601}});
    tree.AddHostBridge("0000:80", second, {PciNvme("0000:81:00.0")});
    tree.AddBlock("259:0", tree.FolderOf("0000:11:00.0") + "/nvme/nvme0/nvme0n1");
    tree.AddBlock("259:1", tree.FolderOf("0000:81:00.0") + "/nvme/nvme1/nvme1n1");
    tree.AddBlock("8:0", tree.FolderOf("0000:13:00.0") + "/ata1/block/sda");
    tree.AddBlock("9:0", "sys/devices/virtual/block/md0", {"nvme0n1", "nvme1n1"});
    topology.source = "hwloc";
    topology.devices = {Nvme("nvme0n1", "0000:11:00.0", 0, "0-3"),
                        Nvme("nvme1n1", "0000:81:00.0", second, "4-7")};
    topology.distances = {Distance::kSystem};
  }
  DrivePlace Of(unsigned major, unsigned minor, const FileSystemKind& kind = Ext4()) const {
    return DrivePlaces(topology, tree.root()).Of(makedev(major, minor), kind);
  }

  TempFolder folder;
  SysfsTree tree;
  Topology topology;
};

}  // namespace

TEST_CASE("a file is near to the NUMA node of its drive, with that node's processors") {
  const Server server;
  CHECK(server.Of(259, 1) ==
        DrivePlace{{"nvme1n1"}, 1, "4-7", "nvme1n1 (0000:81:00.0, NUMA node 1)"});
  CHECK(server.Of(8, 0) == DrivePlace{{}, 0, "0-3", "sda (0000:13:00.0, NUMA node 0)"});
}

TEST_CASE("what is on drives of several NUMA nodes is near to none") {
  const Server server;
  const DrivePlace place = server.Of(9, 0);
  CHECK(place.numa_node == -1);
  CHECK(place.cpus.empty());
  CHECK(place.drives == std::vector<std::string>{"nvme0n1", "nvme1n1"});
  CHECK(place.words ==
        "nvme0n1 (0000:11:00.0, NUMA node 0), nvme1n1 (0000:81:00.0, NUMA node 1): "
        "near to several NUMA nodes");
}

TEST_CASE("an array that is made anew under its old number is looked at anew") {
  Server server;
  server.tree.AddBlock("253:0", "sys/devices/virtual/block/dm-0", {"nvme0n1"});
  DrivePlaces places(server.topology, server.tree.root());
  CHECK(places.Of(makedev(253, 0), Ext4()).numa_node == 0);
  const std::string slaves = server.tree.root() + "/sys/devices/virtual/block/dm-0/slaves/";
  std::filesystem::remove(slaves + "nvme0n1");
  std::filesystem::create_symlink(server.tree.root() + "/sys/class/block/nvme1n1",
                                  slaves + "nvme1n1");
  CHECK(places.Of(makedev(253, 0), Ext4()).numa_node == 1);
}

TEST_CASE("of an array of which the topology knows a part no drive is named, as all count") {
  Server server;
  server.tree.AddBlock("9:1", "sys/devices/virtual/block/md1", {"nvme0n1", "sda"});
  const DrivePlace place = server.Of(9, 1);
  CHECK(place.drives.empty());
  CHECK(place.words.starts_with("nvme0n1 (0000:11:00.0, NUMA node 0), sda (0000:13:00.0"));
}

TEST_CASE("on a machine with one NUMA node a drive is shown, and nothing follows from it") {
  const Server server(1);
  CHECK(server.Of(259, 1) ==
        DrivePlace{{"nvme1n1"}, -1, "", "nvme1n1 (0000:81:00.0, NUMA node 0)"});
  CHECK(server.Of(9, 0).numa_node == -1);
}

TEST_CASE("a hypervisor's word is shown, and counts for nothing") {
  Server server;
  server.topology.virtual_machine = true;
  const DrivePlace place = server.Of(259, 1);
  CHECK(place.numa_node == -1);
  CHECK(place.cpus.empty());
  CHECK(place.words == "nvme1n1 (0000:81:00.0, NUMA node 1), as a hypervisor shows it");
}

TEST_CASE("files of networks and in memory are on no drive, and say why") {
  const Server server;
  CHECK(server.Of(0, 45, KindOf(NFS_SUPER_MAGIC)) ==
        DrivePlace{{}, -1, "", "unknown: nfs: it names no block device"});
  CHECK(server.Of(0, 30, KindOf(TMPFS_MAGIC)).words == "unknown: tmpfs is memory");
}

TEST_CASE("a topology file is believed instead of the kernel, and names what it does not know") {
  Server server;
  server.topology.source = "/etc/onecopy/topology.toml";
  server.topology.devices[1].numa_node = 0;
  server.topology.devices.push_back(Nvme("0:45", {}, 1, "4-7"));
  server.topology.distances.resize(Topology::PairCount(3), Distance::kUnknown);
  CHECK(server.Of(259, 1).numa_node == 0);
  // It does not list this one.
  CHECK(server.Of(8, 0) == DrivePlace{{}, -1, "", "sda (0000:13:00.0)"});
  CHECK(server.Of(0, 45, KindOf(NFS_SUPER_MAGIC)) ==
        DrivePlace{{"0:45"}, 1, "4-7", "0:45 (NUMA node 1)"});
}

TEST_CASE("a number that another device has taken is looked at anew") {
  Server server;
  DrivePlaces places(server.topology, server.tree.root());
  CHECK(places.Of(makedev(259, 0), Ext4()).numa_node == 0);
  server.tree.Link("sys/dev/block/259:0",
                   server.tree.FolderOf("0000:81:00.0") + "/nvme/nvme1/nvme1n1");
  CHECK(places.Of(makedev(259, 0), Ext4()).numa_node == 1);
}
