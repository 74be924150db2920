#include "transport/memory/dmabuf/imported.h"

#include <linux/dma-buf.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

namespace onecopy::dmabuf {
namespace {

Status Sync(int fd, uint64_t flags) {
  dma_buf_sync sync{};
  sync.flags = flags;
  int failed = 0;
  do {
    failed = ::ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync);
  } while (failed != 0 && (errno == EINTR || errno == EAGAIN));
  if (failed == 0) return OkStatus();
  return os::ErrnoStatus(errno, "making a dma-buf's bytes coherent (DMA_BUF_IOCTL_SYNC)");
}

// Writing covers whole cache lines, whose other bytes must be the device's latest.
uint64_t Direction(bool write) { return write ? DMA_BUF_SYNC_RW : DMA_BUF_SYNC_READ; }

}  // namespace

Imported::Imported(os::UniqueFd fd, uint64_t offset, uint64_t bytes)
    : fd_(std::move(fd)), offset_(offset) {
  const uint64_t lead = offset % static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  Result<os::Mapping> mapping = os::MapShared(fd_.get(), lead + bytes, offset - lead);
  if (!mapping.ok()) {
    unmapped_ = Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                       "the processor cannot reach this dma-buf: " + mapping.status().message(),
                       "its exporter does not allow mappings; network devices may still reach it "
                       "(--path rdma-direct)");
    return;
  }
  mapping_ = std::move(*mapping);
  guard_ = os::FaultGuard(mapping_.data(), mapping_.bytes(), faulted_);
  address_ = mapping_.data() + lead;
}

Status Imported::BeginCpuAccess(bool write) const {
  return Sync(fd_.get(), DMA_BUF_SYNC_START | Direction(write));
}

Status Imported::EndCpuAccess(bool write) const {
  return Sync(fd_.get(), DMA_BUF_SYNC_END | Direction(write));
}

void ImportedTable::Add(Region& region, ImportedRef imported) {
  {
    const MutexLock lock(mutex_);
    entries_[&region] = std::move(imported);
  }
  region.OnRelease([self = shared_from_this(), key = &region] {
    ImportedRef last;  // unmapped outside the lock
    const MutexLock lock(self->mutex_);
    last = std::move(self->entries_.extract(key).mapped());
  });
}

ImportedRef ImportedTable::Find(const Region& region) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(&region);
  return found == entries_.end() ? nullptr : found->second;
}

}  // namespace onecopy::dmabuf
