#include "transport/os/drive_stack.h"

#include <filesystem>
#include <fstream>

#include "transport/os/sysfs.h"

namespace onecopy::os {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLayers = 16;  // of devices upon devices

std::string FirstLine(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// "LVM" of "LVM-…", as device mapper writes what made a device.
std::string LayerOf(const std::string& device_mapper_uuid) {
  const std::string kind = device_mapper_uuid.substr(0, device_mapper_uuid.find('-'));
  if (kind == "mpath") return "multipath";
  if (kind == "CRYPT") return "crypt";
  return kind.empty() ? "device-mapper" : kind;
}

// Goes down from a block device, by its folder in sysfs, to the drives.
void Descend(const fs::path& device, int depth, DriveStack& stack) {
  std::error_code error;
  if (depth == kMostLayers) return;
  if (fs::exists(device / "partition", error)) return Descend(device.parent_path(), depth, stack);
  const std::string level = FirstLine(device / "md/level");
  if (!level.empty()) stack.layers.push_back(level);
  if (fs::exists(device / "dm", error)) {
    stack.layers.push_back(LayerOf(FirstLine(device / "dm/uuid")));
  }
  if (fs::exists(device / "loop", error)) stack.layers.emplace_back("loop");
  bool bottom = true;
  for (const std::string& name : sysfs::List(device / "slaves")) {
    bottom = false;
    const fs::path below = fs::canonical(device / "slaves" / name, error);
    if (!error) Descend(below, depth + 1, stack);
  }
  if (bottom) stack.drives.push_back(device.filename().string());
}

}  // namespace

DriveStack ReadDriveStack(const std::string& root, const std::string& device) {
  DriveStack stack;
  std::error_code error;
  const fs::path block = fs::canonical(root + "/sys/dev/block/" + device, error);
  if (!error) Descend(block, 0, stack);
  return stack;
}

}  // namespace onecopy::os
