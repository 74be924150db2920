#include "transport/os/machine/machine.h"

#include <sched.h>
#include <sys/random.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>

#include "transport/os/machine/cgroup.h"

namespace onecopy::os {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

void FillRandom(void* into, size_t bytes) {
  auto* at = static_cast<std::byte*>(into);
  while (bytes > 0) {
    const ssize_t got = ::getrandom(at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) std::abort();  // a kernel without getrandom: nothing safe is left to do
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

std::string HostIdentity() {
  static std::mutex mutex;
  static std::string identity;
  const std::lock_guard lock(mutex);
  if (identity.empty()) identity = FirstLine("/proc/sys/kernel/random/boot_id");
  return identity;
}

uint64_t AvailableMemoryBytes() {
  uint64_t available = 0;
  std::ifstream file("/proc/meminfo");
  if (struct sysinfo facts{}; !file && ::sysinfo(&facts) == 0) {  // for want of a descriptor
    available = (facts.freeram + facts.bufferram) * facts.mem_unit;
  }
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

namespace {

// The line NSpid of a process's status is for all to read, where the link of its namespace needs
// rights over it: it lists one number per namespace, from ours inwards.
std::vector<int> PidsOf(int32_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  std::vector<int> numbers;
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("NSpid:")) continue;
    std::istringstream words(line.substr(6));
    for (int number = 0; words >> number;) numbers.push_back(number);
    break;
  }
  return numbers;
}

}  // namespace

bool SharesPidNamespace(int32_t pid) { return PidsOf(pid).size() == 1; }

std::optional<int> InnermostPid(int32_t pid) {
  const std::vector<int> numbers = PidsOf(pid);
  if (numbers.empty()) return std::nullopt;
  return numbers.back();
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
