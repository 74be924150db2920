#include "client/nixl/shared_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace onecopy::nixl {
namespace {

struct Mapped {
  uint64_t offset = 0;
  dev_t device = 0;
  ino_t inode = 0;
  std::string path;
};

// The one line of /proc/self/maps that has the whole range, where that is a shared mapping of a
// memory file.
std::optional<Mapped> FindMapping(uintptr_t address, uint64_t bytes) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uint64_t first = 0;
    uint64_t end = 0;
    uint64_t offset = 0;
    uint64_t inode = 0;
    unsigned major = 0;
    unsigned minor = 0;
    std::array<char, 5> access = {};
    int path = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
                    &first, &end, access.data(), &offset, &major, &minor, &inode, &path) < 7) {
      continue;
    }
    if (address < first || address >= end) continue;
    const std::string name = line.substr(static_cast<size_t>(path));
    const bool memory = name.starts_with("/memfd:") || name.starts_with("/dev/shm/");
    if (!memory || access[3] != 's' || bytes > end - address) return std::nullopt;
    return Mapped{offset + (address - first), makedev(major, minor), inode, name};
  }
  return std::nullopt;
}

// The file at the path, if it is the mapped one.
os::UniqueFd OpenSame(const std::string& path, const Mapped& mapped) {
  os::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat found = {};
  if (!fd || ::fstat(fd.get(), &found) != 0) return {};
  if (found.st_dev != mapped.device || found.st_ino != mapped.inode) return {};
  return fd;
}

// The same by a descriptor that this process still has of it.
os::UniqueFd OpenByDescriptor(const Mapped& mapped) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    struct stat found = {};
    const std::string path = entry.path().string();
    // Looked at before it is opened: opening what is no memory file may have effects.
    if (::stat(path.c_str(), &found) != 0 || found.st_dev != mapped.device ||
        found.st_ino != mapped.inode) {
      continue;
    }
    if (os::UniqueFd fd = OpenSame(path, mapped)) return fd;
  }
  return {};
}

}  // namespace

std::optional<SharedFile> FindSharedFile(uintptr_t address, uint64_t bytes) {
  const std::optional<Mapped> mapped = FindMapping(address, bytes);
  if (!mapped) return std::nullopt;
  os::UniqueFd fd;
  if (mapped->path.starts_with("/dev/shm/")) fd = OpenSame(mapped->path, *mapped);
  if (!fd) fd = OpenByDescriptor(*mapped);
  if (!fd) return std::nullopt;
  return SharedFile{std::move(fd), mapped->offset};
}

}  // namespace onecopy::nixl
