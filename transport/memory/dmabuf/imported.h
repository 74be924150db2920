// What the daemon holds of a client's dma-buf.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "onecopy/result.h"
#include "transport/core/base/mutex.h"
#include "transport/core/contracts/region.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/memory/fault_guard.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::dmabuf {

// The descriptor, and the piece's mapping where the exporter allows one. Immutable once it is made,
// except for what the exporter does behind it.
class Imported {
 public:
  // `fd` is a dma-buf of at least `offset + bytes` bytes.
  Imported(os::UniqueFd fd, uint64_t offset, uint64_t bytes);

  int fd() const { return fd_.get(); }
  uint64_t offset() const { return offset_; }
  // Null where the piece could not be mapped, for the reason that Unmapped() tells.
  std::byte* address() const { return address_; }
  const Status& unmapped() const { return unmapped_; }
  // Set once the processor has found nothing there; see Region::SetFaultFlag.
  const os::FaultFlag& faulted() const { return faulted_; }

  // Brackets what the processor reads or writes, as the kernel requires of processes that map a
  // dma-buf: without it the processor may see old bytes, or the device may. Either may wait for the
  // exporter's own work with the memory.
  Status BeginCpuAccess(bool write) const;
  Status EndCpuAccess(bool write) const;

 private:
  const os::UniqueFd fd_;
  const uint64_t offset_;
  // The exporter may have nothing at a page that it has mapped.
  const os::FaultFlag faulted_ = std::make_shared<std::atomic<bool>>(false);
  os::Mapping mapping_;
  os::FaultGuard guard_;
  std::byte* address_ = nullptr;
  Status unmapped_;
};

using ImportedRef = std::shared_ptr<const Imported>;

// Which region is which dma-buf. Any thread.
class ImportedTable : public std::enable_shared_from_this<ImportedTable> {
 public:
  // Until the region goes.
  void Add(Region& region, ImportedRef imported);
  // Null for a region of another memory.
  ImportedRef Find(const Region& region) const;

 private:
  mutable Mutex mutex_;
  std::map<const Region*, ImportedRef> entries_ ONECOPY_GUARDED_BY(mutex_);
};

}  // namespace onecopy::dmabuf
