#include "client/nixl/shared_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "transport/os/memory/own_mapping.h"

namespace onecopy::nixl {
namespace {

// The file at the path, if it is the mapped one.
os::UniqueFd OpenSame(const std::string& path, const os::OwnMapping& mapped) {
  os::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat found = {};
  if (!fd || ::fstat(fd.get(), &found) != 0) return {};
  if (found.st_dev != mapped.device || found.st_ino != mapped.inode) return {};
  return fd;
}

// The same by a descriptor that this process still has of it.
os::UniqueFd OpenByDescriptor(const os::OwnMapping& mapped) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    struct stat found = {};
    const std::string path = entry.path().string();
    // Looked at before it is opened: opening another kind of file may have effects.
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
  const std::optional<os::OwnMapping> mapped = os::FindOwnMapping(address);
  if (!mapped || !mapped->shared || bytes > mapped->end - address) return std::nullopt;
  const bool named = mapped->name.starts_with("/dev/shm/");
  if (!named && !mapped->name.starts_with("/memfd:")) return std::nullopt;
  os::UniqueFd fd;
  if (named) fd = OpenSame(mapped->name, *mapped);
  if (!fd) fd = OpenByDescriptor(*mapped);
  if (!fd) return std::nullopt;
  return SharedFile{std::move(fd), mapped->offset + (address - mapped->start)};
}

}  // namespace onecopy::nixl
