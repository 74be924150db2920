// The kernel, this process's limits, IOMMU and PCIe access control.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <sstream>

#include "client/doctor/gather_parts.h"
#include "transport/os/machine/sysfs.h"

namespace onecopy::doctor {
namespace {

namespace fs = std::filesystem;

// What a network device's driver needs to register a dma-buf.
constexpr const char* kOptions[] = {"CONFIG_DMA_SHARED_BUFFER",
                                    "CONFIG_INFINIBAND_ON_DEMAND_PAGING"};

constexpr int kCapIpcLock = 14;

// PCIe base specification: extended capabilities begin here, ACS has this id, and these bits of its
// control register redirect requests and completions between devices, or send all upstream.
constexpr size_t kExtendedSpace = 0x100;
constexpr unsigned kAcsId = 0x000d;
constexpr size_t kAcsControl = 6;
constexpr unsigned kAcsRedirects = 0x04 | 0x08 | 0x10;

unsigned Read16(const std::string& bytes, size_t at) {
  return static_cast<unsigned char>(bytes[at]) |
         static_cast<unsigned>(static_cast<unsigned char>(bytes[at + 1])) << 8;
}

enum class AcsState { kNone, kRedirects, kHidden };

AcsState ReadAcs(const std::string& config) {
  // Without the right to see it, the kernel shows the first 64 bytes only.
  if (config.size() <= kExtendedSpace) {
    return config.size() <= 64 ? AcsState::kHidden : AcsState::kNone;
  }
  std::set<size_t> seen;
  for (size_t at = kExtendedSpace; at >= kExtendedSpace && at + 8 <= config.size();) {
    if (!seen.insert(at).second) break;
    if (Read16(config, at) == kAcsId) {
      return (Read16(config, at + kAcsControl) & kAcsRedirects) != 0 ? AcsState::kRedirects
                                                                     : AcsState::kNone;
    }
    at = Read16(config, at + 2) >> 4;
  }
  return AcsState::kNone;
}

// The bridges above a PCI device, from its real path.
std::vector<std::string> BridgesAbove(const std::string& root, const std::string& address) {
  std::error_code error;
  const fs::path real = fs::canonical(root + "/sys/bus/pci/devices/" + address, error);
  std::vector<std::string> bridges;
  if (error) return bridges;
  for (const fs::path& part : real.parent_path()) {
    const std::string name = part.string();
    if (std::count(name.begin(), name.end(), ':') == 2 && NormalPciAddress(name)) {
      bridges.push_back(name);
    }
  }
  return bridges;
}

}  // namespace

void GatherKernel(const std::string& root, Facts& facts) {
  Kernel& kernel = facts.kernel;
  kernel.release = sysfs::ReadLine(root + "/proc/sys/kernel/osrelease");
  if (std::sscanf(kernel.release.c_str(), "%d.%d", &kernel.major, &kernel.minor) != 2) {
    kernel.major = kernel.minor = 0;
  }
  kernel.command_line = sysfs::ReadLine(root + "/proc/cmdline");
  const std::string config = sysfs::ReadAll(root + "/boot/config-" + kernel.release);
  for (const char* option : kOptions) {
    // An option that is off is written as a comment; one that the file does not know is not there.
    if (!config.empty() && config.find("\n" + std::string(option) + "=") == std::string::npos) {
      kernel.options_off.emplace_back(option);
    }
  }
  const std::string modules = "\n" + sysfs::ReadAll(root + "/proc/modules");
  if (modules.size() > 1) {
    kernel.peermem = modules.find("\nnvidia_peermem ") != std::string::npos ||
                     modules.find("\nnv_peer_mem ") != std::string::npos;
  }
}

void GatherMemlock(const std::string& root, Facts& facts) {
  std::istringstream limits(sysfs::ReadAll(root + "/proc/self/limits"));
  constexpr std::string_view kName = "Max locked memory";
  for (std::string line; std::getline(limits, line);) {
    if (!line.starts_with(kName)) continue;
    std::istringstream words(line.substr(kName.size()));
    std::string soft;
    words >> soft;
    facts.memlock.known = !soft.empty();
    facts.memlock.unlimited = soft == "unlimited";
    facts.memlock.bytes = std::strtoull(soft.c_str(), nullptr, 10);
  }
  std::istringstream status(sysfs::ReadAll(root + "/proc/self/status"));
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("CapEff:")) continue;
    const uint64_t capabilities = std::strtoull(line.c_str() + 7, nullptr, 16);
    if ((capabilities >> kCapIpcLock & 1) != 0) facts.memlock.unlimited = true;
  }
}

// "always [madvise] never": what is chosen stands in brackets.
void GatherHugePages(const std::string& root, Facts& facts) {
  const std::string choices = sysfs::ReadLine(root + "/sys/kernel/mm/transparent_hugepage/enabled");
  const size_t begin = choices.find('[');
  const size_t end = choices.find(']', begin == std::string::npos ? 0 : begin);
  if (begin == std::string::npos || end == std::string::npos) return;
  facts.huge_pages = choices.substr(begin + 1, end - begin - 1);
}

void GatherPcie(const std::string& root, Facts& facts) {
  std::vector<std::string> devices;
  for (const Gpu& gpu : facts.gpus) devices.push_back(gpu.address);
  for (const Nic& nic : facts.nics) {
    if (!nic.address.empty()) devices.push_back(nic.address);
  }
  std::set<std::string> bridges;
  for (const std::string& address : devices) {
    const std::string folder = root + "/sys/bus/pci/devices/" + address;
    const std::string type = sysfs::ReadLine(folder + "/iommu_group/type");
    if (!type.empty()) facts.iommu.push_back({address, type});
    for (std::string& bridge : BridgesAbove(root, address)) bridges.insert(std::move(bridge));
  }
  for (const std::string& bridge : bridges) {
    switch (ReadAcs(sysfs::ReadAll(root + "/sys/bus/pci/devices/" + bridge + "/config"))) {
      case AcsState::kRedirects:
        facts.acs.redirecting.push_back(bridge);
        break;
      case AcsState::kHidden:
        facts.acs.unreadable.push_back(bridge);
        break;
      case AcsState::kNone:
        break;
    }
  }
}

}  // namespace onecopy::doctor
