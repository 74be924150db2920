// Drives, what lies between them and files, and what lets them reach memory of GPUs.
#include <filesystem>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "client/doctor/gather_parts.h"
#include "transport/os/machine/drives.h"
#include "transport/os/machine/sysfs.h"
#include "transport/shim/cufile.h"

namespace onecopy::doctor {
namespace {

namespace fs = std::filesystem;

// The file that a loop device stands for; empty: it is none.
std::string FileBehind(const std::string& root, const std::string& device) {
  return sysfs::ReadLine(root + "/sys/dev/block/" + device + "/loop/backing_file");
}

// Below what a file lies: the mount of the longest folder that leads to it.
const DriveMount* MountOf(const std::vector<DriveMount>& mounts, const std::string& file) {
  const DriveMount* found = nullptr;
  for (const DriveMount& mount : mounts) {
    const std::string folder = mount.folder == "/" ? "/" : mount.folder + "/";
    if (!file.starts_with(folder)) continue;
    if (found == nullptr || found->folder.size() < mount.folder.size()) found = &mount;
  }
  return found;
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
  std::vector<std::pair<size_t, std::string>> loops;
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string number, parent, device, in_it, folder, options, word, type, source, own;
    words >> number >> parent >> device >> in_it >> folder >> options;
    while (words >> word && word != "-") {
    }
    words >> type >> source >> own;
    if (type.empty() || device.find(':') == std::string::npos) continue;
    os::Drives below = os::DrivesOf(device, root);
    if (below.names.empty() || !seen.insert(device).second) continue;
    if (std::string file = FileBehind(root, device); !file.empty()) {
      loops.emplace_back(storage.mounts.size(), std::move(file));
    }
    storage.mounts.push_back({folder, type, own, std::move(below.layers), std::move(below.names)});
  }
  // What a loop device's file lies on is below it, too.
  for (const auto& [index, file] : loops) {
    const DriveMount* const below = MountOf(storage.mounts, file);
    if (below == nullptr || below == &storage.mounts[index]) continue;
    const DriveMount copy = *below;
    DriveMount& loop = storage.mounts[index];
    loop.layers.insert(loop.layers.end(), copy.layers.begin(), copy.layers.end());
    loop.drives = copy.drives;
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
