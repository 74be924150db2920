#include "transport/os/machine/sysfs.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "onecopy/topology.h"

namespace onecopy::sysfs {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxBytes = 1 << 20;

}  // namespace

std::string ReadLine(const std::string& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r')) {
    line.pop_back();
  }
  return line;
}

std::string ReadAll(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string text(kMaxBytes, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  return text;
}

std::vector<std::string> List(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string PciAddressOf(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) return {};
  std::string address;
  for (const fs::path& part : real) {
    const std::string name = part.string();
    // Folders of host bridges ("pci0000:15") are not addresses.
    if (std::count(name.begin(), name.end(), ':') != 2) continue;
    if (const auto normal = NormalPciAddress(name)) address = *normal;
  }
  return address;
}

std::vector<RdmaDevice> RdmaDevices(const std::string& root) {
  const std::string folder = root + "/sys/class/infiniband/";
  std::vector<RdmaDevice> devices;
  for (const std::string& name : List(folder)) {
    RdmaDevice device{.name = name, .address = PciAddressOf(folder + name + "/device")};
    const std::string description = ReadLine(folder + name + "/node_desc");
    std::error_code ignored;
    device.emulated = device.address.empty() || fs::exists(folder + name + "/parent", ignored) ||
                      description == "rxe" || description == "Software iWARP stack";
    devices.push_back(std::move(device));
  }
  return devices;
}

bool HasCpuFlag(const std::string& root, std::string_view flag) {
  std::istringstream lines(ReadAll(root + "/proc/cpuinfo"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word == flag) return true;
    }
    return false;
  }
  return false;
}

}  // namespace onecopy::sysfs
