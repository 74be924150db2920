// Drives of machines that are not here, behind partitions, arrays and paths.
#include "transport/os/machine/drives.h"

#include <sys/sysmacros.h>

#include "tests/support/catch.h"
#include "tests/support/sysfs_tree.h"
#include "tests/support/temp_folder.h"
#include "transport/os/machine/numa.h"

using namespace onecopy;
using namespace onecopy::testing;

namespace {

// Two sockets of four processors, each with NVMe.
class TwoSockets {
 public:
  TwoSockets() : tree(folder_.path().string(), 2, 4) {
    tree.AddHostBridge("0000:10", 0, {PciNvme("0000:11:00.0"), PciNvme("0000:12:00.0")});
    tree.AddHostBridge("0000:80", 1, {PciNvme("0000:81:00.0")});
    tree.AddBlock("259:0", Nvme("0000:11:00.0", "nvme0") + "/nvme0n1");
    tree.AddBlock("259:1", Nvme("0000:12:00.0", "nvme1") + "/nvme1n1");
    tree.AddBlock("259:2", Nvme("0000:81:00.0", "nvme2") + "/nvme2n1");
    tree.AddBlock("259:3", Nvme("0000:81:00.0", "nvme2") + "/nvme2n1/nvme2n1p2");
    tree.Write(Nvme("0000:81:00.0", "nvme2") + "/nvme2n1/nvme2n1p2/partition", "2\n");
  }

  std::string Nvme(const std::string& address, const std::string& controller) const {
    return tree.FolderOf(address) + "/nvme/" + controller;
  }
  os::Drives Of(unsigned major, unsigned minor) const {
    return os::DrivesOf(makedev(major, minor), tree.root());
  }
  // "nvme0n1@0000:11:00.0/0 …", or why there are none.
  std::string Text(unsigned major, unsigned minor) const {
    const os::Drives found = Of(major, minor);
    std::string text;
    for (const os::Drive& drive : found.drives) {
      text += (text.empty() ? "" : " ") + drive.name + "@" + drive.address + "/" +
              std::to_string(drive.numa_node);
    }
    return text + found.why_none;
  }

 private:
  TempFolder folder_;

 public:
  SysfsTree tree;
};

}  // namespace

TEST_CASE("a disk is found behind its number, and a partition's disk behind the partition's") {
  const TwoSockets server;
  const os::Drives found = server.Of(259, 0);
  REQUIRE(found.drives.size() == 1);
  CHECK(found.drives[0] == os::Drive{"nvme0n1", "0000:11:00.0", 0, "0-3"});
  CHECK(found.why_none.empty());
  CHECK(server.Of(259, 3).drives == std::vector{os::Drive{"nvme2n1", "0000:81:00.0", 1, "4-7"}});
}

TEST_CASE("an array is on all of its members, however deep they lie") {
  TwoSockets server;
  server.tree.AddBlock("9:0", "sys/devices/virtual/block/md0", {"nvme0n1", "nvme1n1"});
  server.tree.AddBlock("253:0", "sys/devices/virtual/block/dm-0", {"md0", "nvme2n1p2"});
  CHECK(server.Text(9, 0) == "nvme0n1@0000:11:00.0/0 nvme1n1@0000:12:00.0/0");
  CHECK(server.Text(253, 0) ==
        "nvme0n1@0000:11:00.0/0 nvme1n1@0000:12:00.0/0 nvme2n1@0000:81:00.0/1");
  // What is there twice counts once.
  server.tree.AddBlock("253:1", "sys/devices/virtual/block/dm-1", {"md0", "nvme0n1"});
  CHECK(server.Text(253, 1) == server.Text(9, 0));
  // A partition of an array.
  server.tree.AddBlock("259:9", "sys/devices/virtual/block/md0/md0p1");
  server.tree.Write("sys/devices/virtual/block/md0/md0p1/partition", "1\n");
  CHECK(server.Text(259, 9) == server.Text(9, 0));
}

TEST_CASE("NVMe with several paths is behind each of its controllers") {
  TwoSockets server;
  const std::string subsystem = "sys/devices/virtual/nvme-subsystem/nvme-subsys0";
  server.tree.AddBlock("259:7", subsystem + "/nvme7n1");
  CHECK(server.Text(259, 7) == "no controller of nvme7n1 is to be found");
  server.tree.Link(subsystem + "/nvme0", server.Nvme("0000:11:00.0", "nvme0"));
  server.tree.Link(subsystem + "/nvme2", server.Nvme("0000:81:00.0", "nvme2"));
  CHECK(server.Text(259, 7) == "nvme7n1@0000:11:00.0/0 nvme7n1@0000:81:00.0/1");
  // One of them goes over a network.
  server.tree.Write("sys/devices/virtual/nvme-fabrics/ctl/nvme9/transport", "tcp\n");
  server.tree.Link(subsystem + "/nvme9", "sys/devices/virtual/nvme-fabrics/ctl/nvme9");
  CHECK(server.Text(259, 7) == "nvme7n1 is behind no device on PCI");
}

TEST_CASE("what is on no drive of this machine says so, and one member that is not is enough") {
  TwoSockets server;
  CHECK(server.Text(0, 45) == "it names no block device");
  CHECK(server.Text(8, 16) == "sysfs shows no block device 8:16");
  server.tree.AddBlock("7:0", "sys/devices/virtual/block/loop0");
  CHECK(server.Text(7, 0) == "loop0 is behind no device on PCI");
  server.tree.AddBlock("9:1", "sys/devices/virtual/block/md1", {"nvme0n1", "loop0"});
  CHECK(server.Text(9, 1) == "loop0 is behind no device on PCI");
  // A member that went while it was looked at.
  server.tree.Link("sys/devices/virtual/block/md1/slaves/gone", "sys/devices/virtual/block/gone");
  CHECK(server.Text(9, 1) == "gone, a part of md1, is not to be found");
}

TEST_CASE("arrays that lie on each other, or on more than anybody has, end") {
  TwoSockets server;
  server.tree.AddBlock("9:1", "sys/devices/virtual/block/md1", {"nvme0n1"});
  server.tree.AddBlock("9:2", "sys/devices/virtual/block/md2", {"md1"});
  server.tree.Link("sys/devices/virtual/block/md1/slaves/md2", "sys/devices/virtual/block/md2");
  CHECK(server.Text(9, 1) == "nvme0n1@0000:11:00.0/0");
  std::vector<std::string> members;
  for (size_t i = 0; i <= os::Drives::kMost; ++i) {
    const std::string name = "nvme0n" + std::to_string(100 + i);
    server.tree.AddBlock("259:" + std::to_string(100 + i),
                         server.Nvme("0000:11:00.0", "nvme0") + "/" + name);
    members.push_back(name);
  }
  server.tree.AddBlock("9:3", "sys/devices/virtual/block/md3", members);
  CHECK(server.Text(9, 3) == "it lies on more than 64 devices");
}

TEST_CASE("NUMA nodes are counted as the kernel lists them") {
  const TwoSockets server;
  CHECK(os::NumaNodes(server.tree.root()) == 2);
  CHECK(os::NumaNodes("/nonexistent") == 1);
}
