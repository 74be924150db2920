#include "transport/os/memory/dma_buf.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

#ifndef DMA_BUF_MAGIC
#define DMA_BUF_MAGIC 0x444d4142
#endif

namespace onecopy::os {
namespace {

Status NoDmaBuf(const std::string& why) {
  return {Code::kInvalidArgument, reasons::kBadHandle, "the descriptor is not a dma-buf: " + why,
          "pass one that a driver exported (cuMemGetHandleForAddressRange)"};
}

}  // namespace

// Only dma-bufs have this line, which the kernel writes without asking the file's own code.
bool HasDmaBufExporter(int fd) {
  std::ifstream facts("/proc/self/fdinfo/" + std::to_string(fd));
  std::string line;
  while (std::getline(facts, line)) {
    if (line.starts_with("exp_name:")) return true;
  }
  return false;
}

Result<uint64_t> DmaBufBytes(int fd) {
  if (fd < 0) return NoDmaBuf("there is none");
  errno = 0;
  const bool exported = HasDmaBufExporter(fd);
  if (!exported && (errno == EMFILE || errno == ENFILE)) {
    return ErrnoStatus(errno, "looking at a passed descriptor");
  }
  if (!exported) return NoDmaBuf("the kernel names no exporter of it");
  struct statfs facts {};
  if (::fstatfs(fd, &facts) != 0) return ErrnoStatus(errno, "asking what a descriptor is");
  if (static_cast<uint64_t>(facts.f_type) != DMA_BUF_MAGIC) {
    return NoDmaBuf("its file system is another one");
  }
  const off_t bytes = ::lseek(fd, 0, SEEK_END);
  if (bytes < 0) return ErrnoStatus(errno, "asking a dma-buf's size");
  return static_cast<uint64_t>(bytes);
}

}  // namespace onecopy::os
