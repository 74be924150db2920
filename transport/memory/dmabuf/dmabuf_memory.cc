#include "transport/memory/dmabuf/dmabuf_memory.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "onecopy/range.h"
#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

namespace onecopy::dmabuf {

DmaBufMemory::DmaBufMemory(std::string node, unsigned threads,
                           std::function<Result<uint64_t>(int fd)> bytes_of)
    : node_(std::move(node)), thread_count_(threads), bytes_of_(std::move(bytes_of)) {}

DmaBufMemory::~DmaBufMemory() {
  if (threads_ != nullptr) threads_->Stop();
}

std::vector<MemoryCapability> DmaBufMemory::Describe() const {
  MemoryCapability dmabuf;
  dmabuf.kind = kind_;
  dmabuf.name = "dma-bufs of clients";
  return {dmabuf};
}

Result<std::string> DmaBufMemory::FindDevice(const std::string& typed) const {
  if (typed == kind_ || typed.empty()) return std::string();
  return Status(Code::kNotFound, reasons::kDeviceNotFound,
                "dma-buf memory has no device \"" + typed + "\"");
}

Result<std::unique_ptr<Region>> DmaBufMemory::Allocate(const std::string& device, uint64_t) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string none, FindDevice(device));
  return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                "onecopyd cannot create dma-buf memory: it belongs to the driver that exports it",
                "create a buffer in host or cuda:N memory, or let the program with the dma-buf "
                "register it (Client::RegisterDmaBuf)");
}

Result<std::unique_ptr<Region>> DmaBufMemory::Import(const ImportRequest& request) {
  if (request.form != "dmabuf") {
    return Status(Code::kInvalidArgument, reasons::kBadHandle,
                  "dma-buf memory cannot be shared as \"" + request.form + "\"",
                  "pass the dma-buf's descriptor");
  }
  ONECOPY_ASSIGN_OR_RETURN(const uint64_t size, bytes_of_(request.fd));
  if ((::fcntl(request.fd, F_GETFL) & O_ACCMODE) != O_RDWR) {
    return Status(Code::kInvalidArgument, reasons::kBadHandle,
                  "the passed dma-buf is not open for reading and writing",
                  "export it with O_RDWR (DRM_RDWR)");
  }
  ONECOPY_RETURN_IF_ERROR(CheckWithin({request.offset, request.bytes}, size, "a dma-buf"));
  os::UniqueFd fd = os::UniqueFd::DuplicateOf(request.fd);
  if (!fd) return os::ErrnoStatus(errno, "duplicating a descriptor");
  const auto imported =
      std::make_shared<const Imported>(std::move(fd), request.offset, request.bytes);
  // It goes with the table's entry, after whatever else hangs on the region.
  auto region =
      std::make_unique<Region>(Place{kind_, {}}, imported->address(), request.bytes, false, [] {});
  region->SetFaultFlag(imported->faulted());
  region->SetDmaBufExporter([imported]() -> Result<DmaBuf> {
    os::UniqueFd copy = os::UniqueFd::DuplicateOf(imported->fd());
    if (!copy) return os::ErrnoStatus(errno, "duplicating a descriptor");
    // Exporters align a buffer's first byte to their pages; the mapping here tells nothing of them.
    return DmaBuf{copy.Release(), imported->offset(), imported->offset()};
  });
  region->SetSharer([]() -> Result<ImportRequest> {
    return Status(
        Code::kFailedPrecondition, reasons::kNotShareable,
        "it is a dma-buf: the processor must bracket each access (DMA_BUF_IOCTL_SYNC), which a "
        "plain mapping cannot do, and its exporter may remove pages while it is mapped",
        "ask its owner for the descriptor, or transfer it into a buffer that the daemon allocated");
  });
  imported_->Add(*region, imported);
  return region;
}

bool DmaBufMemory::Copies(const Place& from, const Place& to) const {
  const auto fits = [this](const Place& place) {
    return place.kind == kind_ || place.kind == "host";
  };
  return (from.kind == kind_ || to.kind == kind_) && fits(from) && fits(to);
}

Result<DmaBufCopyRoute::End> DmaBufMemory::EndOf(const RegionRef& region) const {
  if (region->place().kind != kind_) return DmaBufCopyRoute::End{region, nullptr};
  ImportedRef imported = imported_->Find(*region);
  if (imported == nullptr) {
    return Status(Code::kInternal, reasons::kInternal,
                  "this dma-buf belongs to another registry of dma-bufs");
  }
  ONECOPY_RETURN_IF_ERROR(imported->unmapped());
  return DmaBufCopyRoute::End{region, std::move(imported)};
}

Result<std::unique_ptr<CopyRoute>> DmaBufMemory::Prepare(const RegionRef& from,
                                                         const RegionRef& to) {
  if (!Copies(from->place(), to->place())) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  "this node cannot copy from " + from->step_name() + " to " + to->step_name());
  }
  ONECOPY_ASSIGN_OR_RETURN(DmaBufCopyRoute::End source, EndOf(from));
  ONECOPY_ASSIGN_OR_RETURN(DmaBufCopyRoute::End destination, EndOf(to));
  ONECOPY_ASSIGN_OR_RETURN(std::shared_ptr<os::CopyThreads> threads, Threads());
  return std::unique_ptr<CopyRoute>(std::make_unique<DmaBufCopyRoute>(
      node_, std::move(source), std::move(destination), std::move(threads)));
}

Result<std::shared_ptr<os::CopyThreads>> DmaBufMemory::Threads() {
  const MutexLock lock(mutex_);
  if (threads_ == nullptr) {
    ONECOPY_ASSIGN_OR_RETURN(threads_, os::CopyThreads::Make("dmabuf", thread_count_));
  }
  return threads_;
}

Status DmaBufMemory::CloseDevice(const std::string&) {
  return {Code::kInvalidArgument, reasons::kBadArgument, "dma-buf memory holds nothing open",
          "name a GPU, such as cuda:0"};
}

}  // namespace onecopy::dmabuf
