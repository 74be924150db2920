// Finds the mapping of this process at an address.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace onecopy::os {

// One mapping, a line of /proc/self/maps.
struct OwnMapping {
  uintptr_t start = 0;
  uintptr_t end = 0;
  bool shared = false;
  std::string name;  // "/memfd:x (deleted)", "[heap]", a path
  // Where it begins in which file.
  uint64_t offset = 0;
  dev_t device = 0;
  ino_t inode = 0;
};

// The mapping that has the address. By one question, or, from a kernel that does not answer those
// (before Linux 6.11), by reading the lines of all mappings, which takes a hundred times as long.
std::optional<OwnMapping> FindOwnMapping(uintptr_t address);
std::optional<OwnMapping> ReadOwnMapping(uintptr_t address);  // always the latter

}  // namespace onecopy::os
