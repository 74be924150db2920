// What lies below a file, and what of it is told where the library has said no.
#include "transport/store/cufile/drive.h"

#include <sys/sysmacros.h>

#include "tests/support/catch.h"
#include "tests/support/sysfs_tree.h"
#include "tests/support/temp_folder.h"

using namespace onecopy;
using namespace onecopy::cufile;
using namespace onecopy::testing;

namespace {

constexpr unsigned long kExt4 = 0xef53;

// A machine with one NVMe drive, and a device upon it of number 253:1 that is what a test makes it.
struct Machine {
  TempFolder folder;
  SysfsTree tree{folder.path().string(), 1, 1};

  Machine() {
    tree.Write("sys/devices/nvme0n1/size", "1\n");
    tree.Link("sys/dev/block/259:0", "sys/devices/nvme0n1");
    tree.Link("sys/devices/virtual/upon/slaves/nvme0n1", "sys/devices/nvme0n1");
    tree.Link("sys/dev/block/253:1", "sys/devices/virtual/upon");
  }
  void Is(const std::string& file, const std::string& text) {
    tree.Write("sys/devices/virtual/upon/" + file, text + "\n");
  }
  void HasNvidiaFs(const std::string& modules) {
    tree.Write("proc/driver/nvidia-fs/modules", modules);
  }
  DriveTrouble Of(unsigned number_major, unsigned number_minor, unsigned long kind = kExt4) const {
    return FindDriveTrouble(tree.root(), makedev(number_major, number_minor), kind);
  }
};

bool Tells(const DriveTrouble& trouble, const std::string& words) {
  INFO(trouble.detail);
  CHECK_FALSE(trouble.remedy.empty());
  return trouble.detail.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("of a drive that is in order nothing is told, nor of what the kernel does not show") {
  Machine machine;
  CHECK(machine.Of(259, 0).empty());
  machine.HasNvidiaFs("nvme\n");
  CHECK(machine.Of(259, 0).empty());
  CHECK(machine.Of(0, 51).empty());
  const Status failed(Code::kFailedPrecondition, "FILE_SYSTEM", "no", "mend it");
  CHECK(machine.Of(259, 0).Explain(failed).message() == "no");
}

TEST_CASE("each layer upon a drive is told by its name") {
  Machine machine;
  const auto [file, text, name] = GENERATE(
      table<std::string, std::string, std::string>({{"dm/uuid", "LVM-abc", "LVM"},
                                                    {"dm/uuid", "mpath-36001", "multipath"},
                                                    {"dm/uuid", "CRYPT-LUKS2-1", "crypt"},
                                                    {"dm/uuid", "", "device-mapper"},
                                                    {"md/level", "raid1", "raid1"},
                                                    {"md/level", "raid0", "raid0"},
                                                    {"loop/backing_file", "/image", "loop"}}));
  machine.Is(file, text);
  CHECK(Tells(machine.Of(253, 1), "lies " + name + ", which GPUDirect Storage does not support"));
  // With nvidia-fs RAID 0 is none.
  machine.HasNvidiaFs("nvme\n");
  CHECK(machine.Of(253, 1).empty() == (name == "raid0"));
}

TEST_CASE("a file system, a drive and its driver are told of") {
  Machine machine;
  CHECK(Tells(machine.Of(259, 0, 0x9123683e), "btrfs"));
  CHECK(Tells(machine.Of(0, 51, 0x01021994), "tmpfs"));
  machine.tree.Write("sys/devices/sda/size", "1\n");
  machine.tree.Link("sys/dev/block/8:0", "sys/devices/sda");
  CHECK(Tells(machine.Of(8, 0), "sda, which is not an NVMe drive"));
  machine.HasNvidiaFs("mlx5_ib\n");
  CHECK(Tells(machine.Of(259, 0), "nvidia-fs does not know the driver nvme"));
}

TEST_CASE("a failure with its cause has the remedy of both") {
  Machine machine;
  machine.Is("dm/uuid", "CRYPT-LUKS2-1");
  const Status told = machine.Of(253, 1).Explain(
      {Code::kFailedPrecondition, "FILE_SYSTEM", "it says no", "mend it"});
  CHECK(told.reason() == "FILE_SYSTEM");
  CHECK(told.message().starts_with("it says no; between the file and nvme0n1 lies crypt"));
  CHECK(told.remedy().starts_with("put it directly on a partition of a drive"));
  CHECK(told.remedy().find("; or mend it") != std::string::npos);
}
