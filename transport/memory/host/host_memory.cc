#include "transport/memory/host/host_memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <list>

#include "transport/core/range.h"
#include "transport/core/reasons.h"
#include "transport/core/size.h"
#include "transport/memory/host/copy_route.h"
#include "transport/memory/host/short_route.h"
#include "transport/os/error.h"
#include "transport/os/machine.h"
#include "transport/os/mapping.h"

namespace onecopy::host {
namespace {

Status BadMemfd(const std::string& why) {
  return {Code::kInvalidArgument, reasons::kBadHandle, "the passed descriptor " + why,
          "pass a memfd made with MFD_ALLOW_SEALING and sealed with F_SEAL_SHRINK"};
}

Status CheckMemfd(const ImportRequest& request) {
  struct stat facts {};
  if (::fstat(request.fd, &facts) != 0)
    return os::ErrnoStatus(errno, "looking at the passed descriptor");
  if (!S_ISREG(facts.st_mode)) return BadMemfd("is not a memory file");
  const int seals = ::fcntl(request.fd, F_GET_SEALS);
  if (seals < 0) return BadMemfd("is not a memfd: it cannot be sealed");
  if ((seals & F_SEAL_SHRINK) == 0)
    return BadMemfd("is not sealed: it could shrink while it is in use");
  if ((seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0)
    return BadMemfd("is sealed against writing");
  if ((::fcntl(request.fd, F_GETFL) & O_ACCMODE) != O_RDWR) {
    return BadMemfd("is not open for reading and writing");
  }
  const auto size = static_cast<uint64_t>(facts.st_size);
  return CheckWithin({request.offset, request.bytes}, size, "a memfd");
}

}  // namespace

// Bytes of allocated memfds. Their pages come on first touch, so what is still untouched must be
// kept in mind when more is asked for.
class HostMemory::Promises {
 public:
  using Entry = std::list<std::pair<int, uint64_t>>::iterator;

  Entry Add(int fd, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    total_ += bytes;
    return entries_.insert(entries_.end(), {fd, bytes});
  }
  void Remove(Entry entry) {
    const std::lock_guard lock(mutex_);
    total_ -= entry->second;
    entries_.erase(entry);
  }
  // Not below UntouchedBytes(), and known at once however many there are.
  uint64_t TotalBytes() const {
    const std::lock_guard lock(mutex_);
    return total_;
  }
  uint64_t UntouchedBytes() const {
    const std::lock_guard lock(mutex_);
    uint64_t untouched = 0;
    for (const auto& [fd, bytes] : entries_) {
      struct stat facts {};
      if (::fstat(fd, &facts) != 0) continue;
      const uint64_t touched = static_cast<uint64_t>(facts.st_blocks) * 512;
      untouched += bytes - std::min(bytes, touched);
    }
    return untouched;
  }

 private:
  mutable std::mutex mutex_;
  std::list<std::pair<int, uint64_t>> entries_;  // guarded by mutex_
  uint64_t total_ = 0;                           // of entries_
};

HostMemory::HostMemory(std::string node, unsigned threads)
    : node_(std::move(node)),
      promises_(std::make_shared<Promises>()),
      threads_(std::make_shared<std::vector<std::unique_ptr<os::LoopThread>>>()) {
  for (unsigned i = 0; i < threads; ++i) {
    threads_->push_back(std::make_unique<os::LoopThread>("copy-" + std::to_string(i)));
  }
}

std::vector<MemoryCapability> HostMemory::Describe() const {
  MemoryCapability host;
  host.kind = kind_;
  host.name = "host memory";
  host.total_bytes = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                     static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  host.cpu_addressable = true;
  return {host};
}

Result<std::string> HostMemory::FindDevice(const std::string& typed) const {
  if (typed == kind_ || typed.empty()) return std::string();
  return Status(Code::kNotFound, reasons::kDeviceNotFound,
                "host memory has no device \"" + typed + "\"");
}

Result<std::unique_ptr<Region>> HostMemory::Allocate(const std::string& device, uint64_t bytes) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string none, FindDevice(device));
  const uint64_t available = os::AvailableMemoryBytes();
  uint64_t promised = promises_->TotalBytes();
  if (promised > available || bytes > available - promised) promised = promises_->UntouchedBytes();
  if (promised > available || bytes > available - promised) {
    return Status(Code::kResourceExhausted, reasons::kNoMemory,
                  FormatBytes(bytes) + " of host memory do not fit: " + FormatBytes(available) +
                      " are available, and " + FormatBytes(promised) +
                      " of that are promised to other buffers",
                  "remove a buffer, or ask for less");
  }
  ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd fd, os::SealedMemfd("onecopy", bytes));
  ONECOPY_ASSIGN_OR_RETURN(os::Mapping mapping, os::MapShared(fd.get(), bytes));
  const Promises::Entry entry = promises_->Add(fd.get(), bytes);
  std::byte* const data = mapping.data();
  auto release = [promises = promises_, entry, fd = std::move(fd),
                  mapping = std::move(mapping)]() mutable {
    promises->Remove(entry);
    mapping = os::Mapping();
    fd.Reset();
  };
  return std::make_unique<Region>(Place{kind_, {}}, data, bytes, true, std::move(release));
}

Result<std::unique_ptr<Region>> HostMemory::Import(const ImportRequest& request) {
  if (request.form != "memfd") {
    return Status(Code::kInvalidArgument, reasons::kBadHandle,
                  "host memory cannot be shared as \"" + request.form + "\"",
                  "pass a sealed memfd");
  }
  ONECOPY_RETURN_IF_ERROR(CheckMemfd(request));
  const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t lead = request.offset % page;
  ONECOPY_ASSIGN_OR_RETURN(os::Mapping mapping,
                           os::MapShared(request.fd, lead + request.bytes, request.offset - lead));
  std::byte* const data = mapping.data() + lead;
  auto release = [mapping = std::move(mapping)]() mutable { mapping = os::Mapping(); };
  return std::make_unique<Region>(Place{kind_, {}}, data, request.bytes, true, std::move(release));
}

bool HostMemory::Copies(const Place& from, const Place& to) const {
  return from.kind == kind_ && to.kind == kind_;
}

Result<std::unique_ptr<CopyRoute>> HostMemory::Prepare(const RegionRef& from, const RegionRef& to) {
  return std::unique_ptr<CopyRoute>(std::make_unique<HostCopyRoute>(node_, from, to, threads_));
}

Result<std::unique_ptr<ShortRoute>> HostMemory::PrepareShort(const RegionRef& from,
                                                             const RegionRef& to) {
  return std::unique_ptr<ShortRoute>(std::make_unique<HostShortRoute>(node_, from, to));
}

Status HostMemory::CloseDevice(const std::string&) {
  return {Code::kInvalidArgument, reasons::kBadArgument, "host memory holds nothing open",
          "name a GPU, such as cuda:0"};
}

}  // namespace onecopy::host
