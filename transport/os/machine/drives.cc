#include "transport/os/machine/drives.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "transport/os/machine/sysfs.h"

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

// "LVM" of "LVM-…", as device mapper writes what made a device.
std::string LayerOf(const std::string& device_mapper_uuid) {
  const std::string kind = device_mapper_uuid.substr(0, device_mapper_uuid.find('-'));
  if (kind == "mpath") return "multipath";
  if (kind == "CRYPT") return "crypt";
  return kind.empty() ? "device-mapper" : kind;
}

class Search {
 public:
  explicit Search(std::string root) : root_(std::move(root)) {}

  // `folder`: of a block device, in its real place.
  void Visit(fs::path folder) {
    std::error_code error;
    if (fs::exists(folder / "partition", error)) folder = folder.parent_path();
    if (seen_.size() > Drives::kMost || !seen_.insert(folder).second) return;
    if (seen_.size() > Drives::kMost) {
      return Fail("it lies on more than " + std::to_string(Drives::kMost) + " devices");
    }
    NoteLayer(folder);
    const std::vector<std::string> members = sysfs::List((folder / "slaves").string());
    for (const std::string& member : members) {
      const fs::path real = fs::canonical(folder / "slaves" / member, error);
      if (error) {
        Fail(member + ", a part of " + folder.filename().string() + ", is not to be found");
      } else {
        Visit(real);
      }
    }
    if (!members.empty()) return;
    const std::string name = folder.filename().string();
    found_.names.push_back(name);
    const fs::path above = folder.parent_path();
    if (!above.filename().string().starts_with(kSubsystem)) return Add(name, folder);
    // A drive that several controllers reach belongs to none of them.
    bool any = false;
    for (const std::string& controller : sysfs::List(above.string())) {
      if (!IsController(controller)) continue;
      any = true;
      Add(name, above / controller);
    }
    if (!any) Fail("no controller of " + name + " is to be found");
  }

  Drives Found() && {
    // Some alone are not the whole.
    if (!found_.why_none.empty()) found_.drives.clear();
    const auto key = [](const Drive& drive) { return std::tie(drive.name, drive.address); };
    std::sort(found_.drives.begin(), found_.drives.end(),
              [&](const Drive& a, const Drive& b) { return key(a) < key(b); });
    return std::move(found_);
  }

 private:
  void Fail(std::string why) {
    if (found_.why_none.empty()) found_.why_none = std::move(why);
  }

  void NoteLayer(const fs::path& folder) {
    std::error_code error;
    std::string layer = sysfs::ReadLine((folder / "md/level").string());
    if (fs::exists(folder / "dm", error)) {
      layer = LayerOf(sysfs::ReadLine((folder / "dm/uuid").string()));
    }
    if (fs::exists(folder / "loop", error)) layer = "loop";
    if (!layer.empty()) found_.layers.push_back(std::move(layer));
  }

  void Add(const std::string& name, const fs::path& folder) {
    Drive drive;
    drive.name = name;
    drive.address = sysfs::PciAddressOf(folder.string());
    if (drive.address.empty()) return Fail(name + " is behind no device on PCI");
    const std::string function = root_ + "/sys/bus/pci/devices/" + drive.address + "/";
    const std::string node = sysfs::ReadLine(function + "numa_node");
    const auto [end, error] =
        std::from_chars(node.data(), node.data() + node.size(), drive.numa_node);
    if (error != std::errc() || end != node.data() + node.size()) drive.numa_node = -1;
    drive.cpus = sysfs::ReadLine(function + "local_cpulist");
    found_.drives.push_back(std::move(drive));
  }

  const std::string root_;
  std::set<fs::path> seen_;
  Drives found_;
};

}  // namespace

Drives DrivesOf(dev_t device, const std::string& root) {
  return DrivesOf(std::to_string(major(device)) + ":" + std::to_string(minor(device)), root);
}

Drives DrivesOf(const std::string& number, const std::string& root) {
  const auto none = [](std::string why) {
    Drives drives;
    drives.why_none = std::move(why);
    return drives;
  };
  // Of file systems without a device, and of those that have several (btrfs).
  if (number.starts_with("0:")) return none("it names no block device");
  std::error_code error;
  const fs::path folder = fs::canonical(root + "/sys/dev/block/" + number, error);
  if (error) return none("sysfs shows no block device " + number);
  Search search(root);
  search.Visit(folder);
  return std::move(search).Found();
}

}  // namespace onecopy::os
