// Limits on memory that control groups set.
#pragma once

#include <cstdint>
#include <string>

namespace onecopy::os {

// What the tightest group above this process still leaves it, page cache that would make room
// counted as free; the largest number where nothing limits it, or what limits it cannot be seen.
// Knows version 2, version 1, and both beside each other. `membership` is /proc/self/cgroup, and
// `root` where groups are mounted.
uint64_t CgroupFreeBytes(const std::string& membership = "/proc/self/cgroup",
                         const std::string& root = "/sys/fs/cgroup");

}  // namespace onecopy::os
