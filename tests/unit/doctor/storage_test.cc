// What keeps drives from memory of GPUs: there where its cause is, absent where all is well.
#include <functional>

#include "client/doctor/diagnose.h"
#include "client/doctor/gather.h"
#include "client/doctor/gather_parts.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/sysfs_tree.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/doctor/healthy.h"

using namespace onecopy;
using namespace onecopy::doctor;
using namespace onecopy::testing;

namespace {

// As HealthyFacts, with a drive that reaches GPUs by nvidia-fs.
Facts WithDrive() {
  Facts facts = HealthyFacts();
  Storage& storage = facts.storage;
  storage.library =
      Part{.found = true, .version = "1.15", .reason = {}, .detail = {}, .remedy = {}};
  storage.nvidia_fs = true;
  storage.p2pdma = false;
  storage.registered_drivers = "nvme\nnvme_rdma\n";
  storage.mounts = {{"/data", "ext4", "rw,data=ordered", {}, {"nvme0n1"}},
                    {"/scratch", "xfs", "rw", {"raid0"}, {"nvme1n1", "nvme2n1"}},
                    {"/", "btrfs", "rw", {"LVM"}, {"sda"}}};
  StoreCapability store;
  store.name = "cufile";
  facts.daemon.capabilities.stores = {store};
  return facts;
}

struct Cause {
  std::string code;
  std::string seen;  // in the evidence
  std::function<void(Facts&)> spoil;
};

std::vector<Cause> Causes() {
  const auto refuse = [](std::string_view reason, const std::string& why) {
    return [reason, why](Facts& f) {
      f.daemon.capabilities.stores[0].viability = Viability::No(reason, why, "mend it");
    };
  };
  return {
      {"CUFILE_ABSENT", "libcufile.so.0 cannot be opened",
       [](Facts& f) {
         f.storage.library = Part{.found = false,
                                  .version = {},
                                  .reason = "NO_CUFILE",
                                  .detail = "the library libcufile.so.0 cannot be opened",
                                  .remedy = "install it"};
       }},
      {"NVIDIA_FS_ABSENT", "nvidia_fs is not loaded",
       [](Facts& f) {
         f.storage.nvidia_fs = false;
         f.storage.p2pdma.reset();
         f.storage.mounts.clear();
       }},
      {"KERNEL_WITHOUT_P2PDMA", "has no p2pdma_pgmap_ops",
       [](Facts& f) { f.storage.nvidia_fs = false; }},
      {"DRIVE_DRIVER_NOT_REGISTERED", "nvme0n1",
       [](Facts& f) { f.storage.registered_drivers = "mlx5_ib\n"; }},
      {"DRIVE_BEHIND_LAYERS", "/data (LVM, multipath)",
       [](Facts& f) {
         f.storage.mounts[0].layers = {"LVM", "multipath"};
       }},
      {"DRIVE_BEHIND_LAYERS", "/scratch (raid5)",
       [](Facts& f) { f.storage.mounts[1].layers = {"raid5"}; }},
      {"DRIVE_BEHIND_LAYERS", "/data (crypt)",
       [](Facts& f) { f.storage.mounts[0].layers = {"crypt"}; }},
      {"DRIVE_BEHIND_LAYERS", "/data (loop)",
       [](Facts& f) { f.storage.mounts[0].layers = {"loop"}; }},
      {"FILE_SYSTEM_WITHOUT_GDS", "/data (btrfs)",
       [](Facts& f) { f.storage.mounts[0].type = "btrfs"; }},
      {"FILE_SYSTEM_WITHOUT_GDS", "/data (ext4, data=journal)",
       [](Facts& f) { f.storage.mounts[0].options = "rw,data=journal"; }},
      {"COMPATIBILITY_MODE", "through host memory",
       refuse(reasons::kCompatibilityMode, "through host memory alone")},
      {"CUFILE_FAILED", "crashed", refuse(reasons::kDriverFailed, "it crashed")},
  };
}

}  // namespace

TEST_CASE("a drive that reaches GPUs brings no finding, nor does what is not known") {
  CHECK(Diagnose(WithDrive()).findings.empty());
  CHECK(Diagnose(HealthyFacts()).findings.empty());
}

TEST_CASE("each cause that keeps a drive from GPUs has its finding, which blocks no other path") {
  for (const Cause& cause : Causes()) {
    Facts facts = WithDrive();
    cause.spoil(facts);
    const Diagnosis diagnosis = Diagnose(facts);
    INFO(cause.code);
    CHECK(diagnosis.works);
    const Finding* const finding = diagnosis.Find(cause.code);
    REQUIRE(finding != nullptr);
    INFO(finding->evidence);
    CHECK(finding->severity == Severity::kNote);
    CHECK(finding->evidence.find(cause.seen) != std::string::npos);
    CHECK_FALSE(finding->remedy.empty());
  }
}

TEST_CASE("with peer-to-peer DMA nvidia-fs is not missed, but RAID 0 is in the way then") {
  Facts facts = WithDrive();
  facts.storage.nvidia_fs = false;
  facts.storage.p2pdma = true;
  facts.storage.registered_drivers.reset();
  const Diagnosis diagnosis = Diagnose(facts);
  CHECK(diagnosis.Find("NVIDIA_FS_ABSENT") == nullptr);
  CHECK(diagnosis.Find("KERNEL_WITHOUT_P2PDMA") == nullptr);
  const Finding* const layers = diagnosis.Find("DRIVE_BEHIND_LAYERS");
  REQUIRE(layers != nullptr);
  CHECK(layers->evidence.find("/scratch (raid0)") != std::string::npos);
}

TEST_CASE("images of programs are nobody's data") {
  Facts facts = WithDrive();
  facts.storage.mounts.push_back({"/snap/x", "squashfs", "ro", {"loop"}, {"nvme0n1"}});
  CHECK(Diagnose(facts).findings.empty());
}

TEST_CASE("without a GPU nobody misses anything of it") {
  for (const Cause& cause : Causes()) {
    if (cause.code == "COMPATIBILITY_MODE" || cause.code == "CUFILE_FAILED") continue;
    Facts facts = WithDrive();
    cause.spoil(facts);
    facts.gpus.clear();
    INFO(cause.code);
    CHECK(Diagnose(facts).Find(cause.code) == nullptr);
  }
}

TEST_CASE("drives, and what lies upon them, are read from files") {
  TempFolder folder;
  SysfsTree tree(folder.path().string(), 1, 1);
  tree.Write("proc/modules", "nvidia_fs 1 0 - Live 0x0\n");
  tree.Write("proc/driver/nvidia-fs/modules", "nvme\n");
  tree.Write("proc/kallsyms", "0 d p2pdma_pgmap_ops_of_others\n0 d p2pdma_pgmap_ops\n");
  tree.Write("sys/devices/nvme0n1/size", "1\n");
  tree.Write("sys/devices/nvme0n1/nvme0n1p1/partition", "1\n");
  tree.Write("sys/devices/virtual/md0/md/level", "raid0\n");
  tree.Write("sys/devices/virtual/dm-0/dm/uuid", "LVM-abc\n");
  tree.Link("sys/devices/virtual/dm-0/slaves/md0", "sys/devices/virtual/md0");
  tree.Link("sys/devices/virtual/md0/slaves/nvme0n1p1", "sys/devices/nvme0n1/nvme0n1p1");
  tree.Link("sys/dev/block/259:1", "sys/devices/nvme0n1/nvme0n1p1");
  tree.Link("sys/dev/block/253:0", "sys/devices/virtual/dm-0");
  tree.Write("proc/self/mountinfo",
             "22 1 259:1 / /data rw,noatime shared:1 - ext4 /dev/nvme0n1p1 rw,data=ordered\n"
             "23 1 253:0 / /big rw - xfs /dev/mapper/big rw\n"
             "24 1 259:1 /sub /again rw - ext4 /dev/nvme0n1p1 rw\n"
             "25 1 0:5 / /proc rw - proc proc rw\n"
             "nonsense\n");
  Facts facts;
  GatherStorage(tree.root(), facts);
  const Storage& storage = facts.storage;
  CHECK(storage.nvidia_fs == true);
  CHECK(storage.p2pdma == true);
  CHECK(storage.registered_drivers == "nvme\n");
  CHECK_FALSE(storage.library);
  REQUIRE(storage.mounts.size() == 2);
  CHECK(storage.mounts[0].folder == "/data");
  CHECK(storage.mounts[0].options == "rw,data=ordered");
  CHECK(storage.mounts[0].layers.empty());
  CHECK(storage.mounts[0].drives == std::vector<std::string>{"nvme0n1"});
  CHECK(storage.mounts[1].layers == std::vector<std::string>{"LVM", "raid0"});
  CHECK(storage.mounts[1].drives == std::vector<std::string>{"nvme0n1"});
}

TEST_CASE(
    "each layer upon a drive is told by its name, and a loop device by what is below its file") {
  TempFolder folder;
  SysfsTree tree(folder.path().string(), 1, 1);
  tree.Write("sys/devices/nvme0n1/size", "1\n");
  tree.Link("sys/dev/block/259:0", "sys/devices/nvme0n1");
  const auto upon = [&](const std::string& device, const std::string& number) {
    const std::string path = "sys/devices/virtual/" + device;
    tree.Link(path + "/slaves/nvme0n1", "sys/devices/nvme0n1");
    tree.Link("sys/dev/block/" + number, path);
    return path;
  };
  tree.Write(upon("md1", "9:1") + "/md/level", "raid5\n");
  tree.Write(upon("dm-1", "253:1") + "/dm/uuid", "mpath-36001\n");
  tree.Write(upon("dm-2", "253:2") + "/dm/uuid", "CRYPT-LUKS2-77\n");
  tree.Write(upon("dm-3", "253:3") + "/dm/uuid", "\n");
  tree.Write("sys/devices/virtual/loop0/loop/backing_file", "/drive/image\n");
  tree.Link("sys/dev/block/7:0", "sys/devices/virtual/loop0");
  std::string mounts;
  int number = 20;
  for (const auto& [device, at] : {std::pair("259:0", "/drive"),
                                   {"9:1", "/raid"},
                                   {"253:1", "/paths"},
                                   {"253:2", "/secret"},
                                   {"253:3", "/other"},
                                   {"7:0", "/loop"}}) {
    mounts += std::to_string(number++) + " 1 " + device + " / " + at + " rw - xfs x rw\n";
  }
  tree.Write("proc/self/mountinfo", mounts);
  Facts facts = HealthyFacts();
  GatherStorage(tree.root(), facts);
  const std::vector<std::vector<std::string>> expected = {
      {}, {"raid5"}, {"multipath"}, {"crypt"}, {"device-mapper"}, {"loop"}};
  REQUIRE(facts.storage.mounts.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO(facts.storage.mounts[i].folder);
    CHECK(facts.storage.mounts[i].layers == expected[i]);
    CHECK(facts.storage.mounts[i].drives == std::vector<std::string>{"nvme0n1"});
  }
  const Diagnosis diagnosis = Diagnose(facts);
  const Finding* const layers = diagnosis.Find("DRIVE_BEHIND_LAYERS");
  REQUIRE(layers != nullptr);
  CHECK(layers->evidence.find("/raid (raid5)") != std::string::npos);
}
