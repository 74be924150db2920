#include "transport/memory/host/host_memory.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "onecopy/reasons.h"
#include "transport/memory/host/client_file.h"
#include "transport/memory/host/copy_route.h"
#include "transport/memory/host/own_file.h"
#include "transport/memory/host/small_copy_route.h"
#include "transport/os/base/error.h"
#include "transport/os/machine/machine.h"
#include "transport/os/machine/numa.h"
#include "transport/os/memory/fault_guard.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::host {
HostMemory::HostMemory(std::string node, unsigned threads)
    : node_(std::move(node)),
      promises_(std::make_shared<Promises>(&os::AvailableMemoryBytes)),
      threads_(os::CopyThreads::MakeAtStart("copy", threads)) {}

HostMemory::~HostMemory() { threads_->Stop(); }

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
  ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd fd, os::SealedMemfd("onecopy", bytes));
  return Own(std::move(fd), bytes, false);
}

Result<std::unique_ptr<Region>> HostMemory::Restore(const ImportRequest& kept) {
  if (kept.form != "memfd" || kept.offset != 0) {
    return Status(Code::kInvalidArgument, reasons::kBadHandle,
                  "the daemon's host memory is not a \"" + kept.form + "\"");
  }
  ONECOPY_RETURN_IF_ERROR(CheckMemoryFile(kept));
  if (!CannotShrink(kept.fd)) {
    return Status(Code::kInvalidArgument, reasons::kBadHandle,
                  "the memory file is not sealed against shrinking, as the daemon's own are");
  }
  os::UniqueFd fd = os::UniqueFd::DuplicateOf(kept.fd);
  if (!fd) return os::ErrnoStatus(errno, "duplicating a memory file");
  return Own(std::move(fd), kept.bytes, true);
}

Result<std::unique_ptr<Region>> HostMemory::Own(os::UniqueFd fd, uint64_t bytes,
                                                bool shared) const {
  ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<Promise> promise, promises_->Make(fd.get(), bytes));
  ONECOPY_ASSIGN_OR_RETURN(os::Mapping mapping, os::MapShared(fd.get(), bytes));
  std::byte* const data = mapping.data();
  const auto own = std::make_shared<OwnFile>(std::move(fd), bytes, shared);
  auto region =
      Guarded(data, bytes, std::move(mapping), [own, promise = std::move(promise)]() mutable {
        promise.reset();
        own->TakeBack();
      });
  region->SetSharer([own] { return own->Share(); });
  region->SetLeaver([own] { own->Leave(); });
  return region;
}

Result<std::unique_ptr<Region>> HostMemory::AllocateForStaging(const std::string& device,
                                                               uint64_t bytes, int32_t numa_node) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string none, FindDevice(device));
  ONECOPY_RETURN_IF_ERROR(promises_->CheckRoom(bytes));
  ONECOPY_ASSIGN_OR_RETURN(os::Mapping mapping, os::MapHugePages(bytes));
  std::byte* const data = mapping.data();
  // Where the kernel does not place pages, they lie where they happen to.
  if (numa_node >= 0) (void)os::PreferNumaNode(data, mapping.bytes(), numa_node);
  // Without the right to lock it, it is ordinary memory until a device pins it, and is called so.
  // Nothing is promised of it: it is there now.
  const bool locked = os::LockInMemory(data, mapping.bytes());
  if (!locked) std::memset(data, 0, mapping.bytes());
  auto region = Guarded(data, bytes, std::move(mapping), {});
  if (locked) region->SetStepName("pinned");
  return region;
}

Result<std::unique_ptr<Region>> HostMemory::Import(const ImportRequest& request) {
  if (request.form != "memfd") {
    return Status(Code::kInvalidArgument, reasons::kBadHandle,
                  "host memory cannot be shared as \"" + request.form + "\"", "pass a memfd");
  }
  ONECOPY_RETURN_IF_ERROR(CheckMemoryFile(request));
  ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<ClientFile> file, ClientFile::Open(request, *promises_));
  const uint64_t page = file->page_bytes();
  const uint64_t lead = request.offset % page;
  const uint64_t pages = (lead + request.bytes + page - 1) / page;
  ONECOPY_ASSIGN_OR_RETURN(os::Mapping mapping,
                           os::MapShared(file->fd(), pages * page, request.offset - lead));
  std::byte* const data = mapping.data() + lead;
  auto region = Guarded(data, request.bytes, std::move(mapping), {});
  if (!CannotShrink(file->fd())) region->SetForm("shm");
  // The region has it, and so it lives as long.
  region->SetSharer([known = file.get(), bytes = request.bytes] { return known->Share(bytes); });
  region->SetBacking(std::move(file));
  return region;
}

// Memory that may fault when it is touched, without ending the process.
std::unique_ptr<Region> HostMemory::Guarded(std::byte* data, uint64_t bytes, os::Mapping mapping,
                                            Region::Release after) const {
  const auto faulted = std::make_shared<std::atomic<bool>>(false);
  os::FaultGuard guard(mapping.data(), mapping.bytes(), faulted);
  auto release = [mapping = std::move(mapping), guard = std::move(guard),
                  after = std::move(after)]() mutable {
    guard = os::FaultGuard();
    mapping = os::Mapping();
    if (after) after();
  };
  auto region = std::make_unique<Region>(Place{kind_, {}}, data, bytes, true, std::move(release));
  region->SetFaultFlag(faulted);
  return region;
}

bool HostMemory::Copies(const Place& from, const Place& to) const {
  return from.kind == kind_ && to.kind == kind_;
}

Result<std::unique_ptr<CopyRoute>> HostMemory::Prepare(const RegionRef& from, const RegionRef& to) {
  return std::unique_ptr<CopyRoute>(std::make_unique<HostCopyRoute>(node_, from, to, threads_));
}

Result<std::unique_ptr<SmallCopyRoute>> HostMemory::PrepareSmall(const RegionRef& from,
                                                                 const RegionRef& to) {
  return std::unique_ptr<SmallCopyRoute>(std::make_unique<HostSmallCopyRoute>(node_, from, to));
}

Status HostMemory::CloseDevice(const std::string&) {
  return {Code::kInvalidArgument, reasons::kBadArgument, "host memory holds nothing open",
          "name a GPU, such as cuda:0"};
}

}  // namespace onecopy::host
