#include "transport/store/cufile/drive.h"

#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "transport/os/machine/drives.h"

namespace onecopy::cufile {
namespace {

// Local ones, none of which goes directly; of those that are not here the library knows better.
constexpr std::pair<unsigned long, const char*> kNotDirect[] = {
    {0x01021994, "tmpfs"},    {0x9123683e, "btrfs"}, {0x794c7630, "overlay"}, {0x2fc12fc1, "zfs"},
    {0x73717368, "squashfs"}, {0xf2f52010, "f2fs"},  {0x65735546, "fuse"},
};

std::string Listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string ReadText(const std::string& path) {
  const std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

}  // namespace

Status DriveTrouble::Explain(const Status& failure) const {
  if (empty()) return failure;
  return {failure.code(), failure.reason(), failure.message() + "; " + detail,
          remedy + (failure.remedy().empty() ? "" : "; or " + failure.remedy())};
}

DriveTrouble FindDriveTrouble(const std::string& root, dev_t device, unsigned long file_system) {
  for (const auto& [kind, name] : kNotDirect) {
    if (kind != file_system) continue;
    return {
        std::string("its file system is ") + name + ", which GPUDirect Storage does not support",
        "put it on ext4 (data=ordered) or xfs of an NVMe drive"};
  }
  os::Drives stack = os::DrivesOf(device, root);
  if (stack.names.empty()) return {};  // a network's
  std::error_code hidden;              // what may not be looked at is not there
  const bool nvidia_fs = std::filesystem::exists(root + "/proc/driver/nvidia-fs", hidden);
  if (nvidia_fs) std::erase(stack.layers, "raid0");
  if (!stack.layers.empty()) {
    return {"between the file and " + Listed(stack.names) + " lies " + Listed(stack.layers) +
                ", which GPUDirect Storage does not support",
            std::string("put it directly on a partition of a drive") +
                (nvidia_fs ? ", or on RAID 0" : ", or on RAID 0 with nvidia-fs")};
  }
  const bool nvme = std::all_of(stack.names.begin(), stack.names.end(),
                                [](const auto& drive) { return drive.starts_with("nvme"); });
  if (!nvme) {
    return {"it lies on " + Listed(stack.names) + ", which is not an NVMe drive",
            "put it on an NVMe drive"};
  }
  const std::string modules = root + "/proc/driver/nvidia-fs/modules";
  if (std::filesystem::exists(modules, hidden) &&
      ReadText(modules).find("nvme") == std::string::npos) {
    return {"nvidia-fs does not know the driver nvme of " + Listed(stack.names) + " (" +
                "/proc/driver/nvidia-fs/modules)",
            "load an nvme driver that registers with nvidia-fs (MLNX_OFED or DOCA with GDS), then "
            "reload nvidia-fs"};
  }
  return {};
}

DriveTrouble FindDriveTrouble(const std::string& root, int fd) {
  struct stat file {};
  struct statfs system {};
  if (::fstat(fd, &file) != 0 || ::fstatfs(fd, &system) != 0) return {};
  return FindDriveTrouble(root, file.st_dev, static_cast<unsigned long>(system.f_type));
}

}  // namespace onecopy::cufile
