#include "transport/os/machine/cgroup.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

namespace onecopy::os {
namespace {

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// Names of a version's files.
struct Files {
  std::vector<const char*> limits;
  const char* used;
  const char* reclaimable;  // in memory.stat
};

const Files& Version2() {
  static const Files files{{"memory.max", "memory.high"}, "memory.current", "inactive_file"};
  return files;
}
const Files& Version1() {
  static const Files files{
      {"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file"};
  return files;
}

// The number in a file; `missing` for "max", or where there is none.
uint64_t Number(const std::string& path, uint64_t missing) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? number : missing;
}

uint64_t Statistic(const std::string& path, const std::string& wanted) {
  std::ifstream file(path);
  std::string key;
  for (uint64_t number = 0; file >> key >> number;) {
    if (key == wanted) return number;
  }
  return 0;
}

uint64_t FreeIn(const std::string& folder, const Files& files) {
  uint64_t limit = kNoLimit;
  for (const char* name : files.limits)
    limit = std::min(limit, Number(folder + "/" + name, kNoLimit));
  if (limit == kNoLimit) return kNoLimit;
  uint64_t used = Number(folder + "/" + files.used, 0);
  used -= std::min(used, Statistic(folder + "/memory.stat", files.reclaimable));
  return limit - std::min(limit, used);
}

// Of the group and all above it. In a container that sees the whole path but only its own part of
// the tree, what is mounted at the top is its own group.
uint64_t FreeAlong(const std::string& mount, std::string group, const Files& files) {
  uint64_t free = kNoLimit;
  while (true) {
    free = std::min(free, FreeIn(mount + group, files));
    if (group.empty() || group == "/") return free;
    group.resize(group.rfind('/'));
  }
}

bool Names(const std::string& controllers, const std::string& wanted) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == wanted) return true;
  }
  return false;
}

}  // namespace

uint64_t CgroupFreeBytes(const std::string& membership, const std::string& root) {
  uint64_t free = kNoLimit;
  std::ifstream file(membership);
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || line.compare(second, 2, ":/") != 0) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      free = std::min(free, FreeAlong(root, group, Version2()));
      free = std::min(free, FreeAlong(root + "/unified", group, Version2()));
    } else if (Names(controllers, "memory")) {
      free = std::min(free, FreeAlong(root + "/memory", group, Version1()));
    }
  }
  return free;
}

}  // namespace onecopy::os
