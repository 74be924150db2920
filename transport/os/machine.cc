#include "transport/os/machine.h"

#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

namespace onecopy::os {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The number in a cgroup file; the largest number for "max" or a file that is not there.
uint64_t CgroupNumber(const std::string& path) {
  const std::string line = FirstLine(path);
  if (line.empty() || line == "max") return std::numeric_limits<uint64_t>::max();
  return std::strtoull(line.c_str(), nullptr, 10);
}

// What the tightest cgroup above this process leaves free (version 2 hierarchy).
uint64_t CgroupFreeBytes() {
  uint64_t free = std::numeric_limits<uint64_t>::max();
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::/")) continue;
    std::string group = line.substr(3);
    while (true) {
      const std::string folder = "/sys/fs/cgroup" + group;
      const uint64_t most = CgroupNumber(folder + "/memory.max");
      const uint64_t used = CgroupNumber(folder + "/memory.current");
      if (most != std::numeric_limits<uint64_t>::max())
        free = std::min(free, most - std::min(used, most));
      if (group.empty() || group == "/") break;
      group.resize(group.rfind('/'));
    }
  }
  return free;
}

void FillRandom(void* into, size_t bytes) {
  auto* at = static_cast<std::byte*>(into);
  while (bytes > 0) {
    const ssize_t got = ::getrandom(at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) std::abort();  // a kernel without getrandom: there is no safe way on
    at += got;
    bytes -= static_cast<size_t>(got);
  }
}

}  // namespace

std::string HostName() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "localhost";
  return name;
}

std::string HostIdentity() { return FirstLine("/proc/sys/kernel/random/boot_id"); }

uint64_t AvailableMemoryBytes() {
  uint64_t available = 0;
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    uint64_t kibibytes = 0;
    if (words >> key >> kibibytes && key == "MemAvailable:") available = kibibytes * 1024;
  }
  return std::min(available, CgroupFreeBytes());
}

unsigned UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

std::vector<std::string> RdmaDevices() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/infiniband", error)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool SharesPidNamespace(int32_t pid) {
  // The link needs rights over the process; the line NSpid is for all to read: it lists one number
  // per namespace from ours inwards, so more than one means a namespace below ours.
  const std::string folder = "/proc/" + std::to_string(pid);
  std::ifstream status(folder + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("NSpid:")) continue;
    std::istringstream words(line.substr(6));
    int numbers = 0;
    for (std::string word; words >> word;) ++numbers;
    return numbers == 1;
  }
  return false;
}

std::string RandomHex(size_t bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string raw(bytes, '\0');
  FillRandom(raw.data(), bytes);
  std::string text;
  text.reserve(bytes * 2);
  for (const char c : raw) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

uint64_t RandomNumber() {
  uint64_t number = 0;
  FillRandom(&number, sizeof number);
  return number;
}

}  // namespace onecopy::os
