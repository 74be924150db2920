#include "transport/os/files/descriptor_kind.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "transport/os/memory/dma_buf.h"

namespace onecopy::os {
namespace {

// 0 where it cannot be told. A file system is told not to ask its server.
unsigned ModeOf(int fd) {
  struct statx facts {};
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &facts) != 0) return 0;
  return (facts.stx_mask & STATX_TYPE) != 0 ? facts.stx_mode & S_IFMT : 0;
}

}  // namespace

DescriptorKind KindOf(int fd) {
  if (::fcntl(fd, F_GET_SEALS) >= 0) return DescriptorKind::kMemoryFile;
  if (HasDmaBufExporter(fd)) return DescriptorKind::kDmaBuf;
  return ModeOf(fd) == S_IFCHR ? DescriptorKind::kDevice : DescriptorKind::kOther;
}

std::string DescribeDescriptor(int fd) {
  switch (ModeOf(fd)) {
    case S_IFSOCK:
      return "a socket";
    case S_IFIFO:
      return "a pipe";
    case S_IFDIR:
      return "a directory";
    case S_IFREG:
      return "a file that is not a memory file (memfd)";
    case S_IFBLK:
      return "a block device";
    default:
      return "nothing that holds memory";
  }
}

}  // namespace onecopy::os
