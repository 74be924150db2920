// Drives, what lies between them and files, and what lets them reach memory of GPUs.
#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "client/doctor/gather_parts.h"
#include "transport/os/sysfs.h"
#include "transport/shim/cufile.h"

namespace onecopy::doctor {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLayers = 16;  // of devices upon devices

// "LVM" of "LVM-…", as device mapper writes what made a device.
std::string LayerOf(const std::string& device_mapper_uuid) {
  const std::string kind = device_mapper_uuid.substr(0, device_mapper_uuid.find('-'));
  if (kind == "mpath") return "multipath";
  if (kind == "CRYPT") return "crypt";
  return kind.empty() ? "device-mapper" : kind;
}

// Goes down from a block device, by its folder in sysfs, to the drives.
void Descend(const fs::path& device, int depth, DriveMount& mount) {
  std::error_code error;
  const std::string folder = device.string();
  if (depth == kMostLayers) return;
  if (fs::exists(device / "partition", error)) return Descend(device.parent_path(), depth, mount);
  const std::string level = sysfs::ReadLine(folder + "/md/level");
  if (!level.empty()) mount.layers.push_back(level);
  if (fs::exists(device / "dm", error)) {
    mount.layers.push_back(LayerOf(sysfs::ReadLine(folder + "/dm/uuid")));
  }
  bool bottom = true;
  for (const auto& entry : fs::directory_iterator(device / "slaves", error)) {
    bottom = false;
    const fs::path below = fs::canonical(entry.path(), error);
    if (!error) Descend(below, depth + 1, mount);
  }
  if (bottom) mount.drives.push_back(device.filename().string());
}

}  // namespace

void GatherStorage(const std::string& root, Facts& facts) {
  Storage& storage = facts.storage;
  std::error_code error;
  const std::string modules = "\n" + sysfs::ReadAll(root + "/proc/modules");
  if (modules.size() > 1) {
    storage.nvidia_fs = modules.find("\nnvidia_fs ") != std::string::npos ||
                        fs::exists(root + "/proc/driver/nvidia-fs", error);
  }
  const std::string registered = root + "/proc/driver/nvidia-fs/modules";
  if (fs::exists(registered, error)) storage.registered_drivers = sysfs::ReadAll(registered);
  const std::string symbols = sysfs::ReadAll(root + "/proc/kallsyms");
  const std::string config = sysfs::ReadAll(root + "/boot/config-" + facts.kernel.release);
  if (!symbols.empty()) storage.p2pdma = symbols.find(" p2pdma_pgmap_ops") != std::string::npos;
  if (!config.empty() && !storage.p2pdma.value_or(false)) {
    storage.p2pdma = config.find("\nCONFIG_PCI_P2PDMA=y") != std::string::npos;
  }
  std::istringstream mounts(sysfs::ReadAll(root + "/proc/self/mountinfo"));
  std::set<std::string> seen;
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string number, parent, device, in_it, folder, options, word, type, source, own;
    words >> number >> parent >> device >> in_it >> folder >> options;
    while (words >> word && word != "-") {
    }
    words >> type >> source >> own;
    if (type.empty() || device.find(':') == std::string::npos) continue;
    const fs::path block = fs::canonical(root + "/sys/dev/block/" + device, error);
    if (error || !seen.insert(device).second) continue;
    DriveMount mount;
    mount.folder = folder;
    mount.type = type;
    mount.options = own;
    Descend(block, 0, mount);
    storage.mounts.push_back(std::move(mount));
  }
}

void AskCuFile(Facts& facts) {
  Part part;
  const auto api = shim::LoadCuFile();
  part.found = api.ok();
  if (api.ok()) {
    part.version = (*api)->version;
  } else {
    part.reason = api.status().reason();
    part.detail = api.status().message();
    part.remedy = api.status().remedy();
  }
  facts.storage.library = std::move(part);
}

}  // namespace onecopy::doctor
