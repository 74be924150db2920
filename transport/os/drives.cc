#include "transport/os/drives.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "transport/os/sysfs.h"

namespace onecopy::os {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSubsystem = "nvme-subsys";
constexpr std::string_view kController = "nvme";

// "nvme3", and not "nvme3n1", "nvme-subsys0".
bool IsController(std::string_view name) {
  if (!name.starts_with(kController) || name.size() == kController.size()) return false;
  name.remove_prefix(kController.size());
  return std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

class Search {
 public:
  explicit Search(std::string root) : root_(std::move(root)) {}

  // `folder`: of a block device, in its real place.
  void Visit(fs::path folder) {
    std::error_code error;
    if (fs::exists(folder / "partition", error)) folder = folder.parent_path();
    if (!seen_.insert(folder).second || !why_.empty()) return;
    if (seen_.size() > Drives::kMost) {
      why_ = "it lies on more than " + std::to_string(Drives::kMost) + " devices";
      return;
    }
    const std::vector<std::string> members = sysfs::List((folder / "slaves").string());
    for (const std::string& member : members) {
      const fs::path real = fs::canonical(folder / "slaves" / member, error);
      if (error) {
        why_ = member + ", a part of " + folder.filename().string() + ", is not to be found";
        return;
      }
      Visit(real);
    }
    if (!members.empty()) return;
    const std::string name = folder.filename().string();
    const fs::path above = folder.parent_path();
    if (!above.filename().string().starts_with(kSubsystem)) return Add(name, folder);
    // What several controllers reach is no one's of them.
    bool any = false;
    for (const std::string& controller : sysfs::List(above.string())) {
      if (!IsController(controller)) continue;
      any = true;
      Add(name, above / controller);
    }
    if (!any) why_ = "no controller of " + name + " is to be found";
  }

  Drives Found() && {
    if (!why_.empty()) return {{}, std::move(why_)};
    const auto key = [](const Drive& drive) { return std::tie(drive.name, drive.address); };
    std::sort(drives_.begin(), drives_.end(),
              [&](const Drive& a, const Drive& b) { return key(a) < key(b); });
    return {std::move(drives_), {}};
  }

 private:
  void Add(const std::string& name, const fs::path& folder) {
    Drive drive;
    drive.name = name;
    drive.address = sysfs::PciAddressOf(folder.string());
    if (drive.address.empty()) {
      why_ = name + " is behind no device on PCI";
      return;
    }
    const std::string function = root_ + "/sys/bus/pci/devices/" + drive.address + "/";
    const std::string node = sysfs::ReadLine(function + "numa_node");
    const auto [end, error] =
        std::from_chars(node.data(), node.data() + node.size(), drive.numa_node);
    if (error != std::errc() || end != node.data() + node.size()) drive.numa_node = -1;
    drive.cpus = sysfs::ReadLine(function + "local_cpulist");
    drives_.push_back(std::move(drive));
  }

  const std::string root_;
  std::set<fs::path> seen_;
  std::vector<Drive> drives_;
  std::string why_;
};

}  // namespace

Drives DrivesOf(dev_t device, const std::string& root) {
  const std::string number = std::to_string(major(device)) + ":" + std::to_string(minor(device));
  // Of file systems without a device, and of those that have several (btrfs).
  if (major(device) == 0) return {{}, "it names no block device"};
  std::error_code error;
  const fs::path folder = fs::canonical(root + "/sys/dev/block/" + number, error);
  if (error) return {{}, "sysfs shows no block device " + number};
  Search search(root);
  search.Visit(folder);
  return std::move(search).Found();
}

}  // namespace onecopy::os
