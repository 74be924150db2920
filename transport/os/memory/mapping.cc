#include "transport/os/memory/mapping.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/os/base/error.h"

namespace onecopy::os {
namespace {

constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

Result<std::byte*> MapRaw(int fd, int flags, uint64_t bytes, uint64_t offset) {
  void* data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(offset));
  if (data != MAP_FAILED) return static_cast<std::byte*>(data);
  return ErrnoStatus(errno, "mapping " + std::to_string(bytes) + " bytes");
}

Result<Mapping> Map(int fd, int flags, uint64_t bytes, uint64_t offset) {
  if (bytes == 0) return Mapping();
  ONECOPY_ASSIGN_OR_RETURN(std::byte* const data, MapRaw(fd, flags, bytes, offset));
  return Mapping(data, bytes);
}

}  // namespace

Mapping::~Mapping() {
  if (bytes_ > 0) ::munmap(data_, bytes_);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Result<UniqueFd> SealedMemfd(const std::string& name, uint64_t bytes) {
  if (bytes > static_cast<uint64_t>(std::numeric_limits<off_t>::max())) {
    return Status(
        Code::kResourceExhausted, reasons::kNoMemory,
        FormatBytes(bytes) + " of host memory do not fit: this is more than any machine has",
        "ask for less");
  }
  constexpr unsigned kNoExecSeal = 0x0008;  // MFD_NOEXEC_SEAL, which older headers lack
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExecSeal));
  if (!fd && errno == EINVAL) {  // a kernel older than 6.3 does not know the flag
    fd = UniqueFd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  }
  if (!fd) {
    return ErrnoStatus(errno, "making memory that can be shared (memfd_create)");
  }
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return ErrnoStatus(errno, "sizing a memfd of " + std::to_string(bytes) + " bytes");
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return ErrnoStatus(errno, "sealing a memfd");
  }
  return fd;
}

Result<Mapping> MapShared(int fd, uint64_t bytes, uint64_t offset) {
  return Map(fd, MAP_SHARED, bytes, offset);
}

Result<Mapping> MapAnonymous(uint64_t bytes) { return Map(-1, kPrivate, bytes, 0); }

Result<Mapping> MapHugePages(uint64_t bytes) {
  if (bytes == 0) return Mapping();
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max() - 2 * kHugePageBytes;
  if (bytes > kMost) return ErrnoStatus(ENOMEM, "mapping " + std::to_string(bytes) + " bytes");
  const uint64_t whole = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  // More than is wanted, as the kernel begins where it likes.
  ONECOPY_ASSIGN_OR_RETURN(std::byte* const begin, MapRaw(-1, kPrivate, whole + kHugePageBytes, 0));
  const uint64_t past = reinterpret_cast<uintptr_t>(begin) % kHugePageBytes;
  const uint64_t lead = past == 0 ? 0 : kHugePageBytes - past;
  const Mapping before(begin, lead);
  Mapping wanted(begin + lead, whole);
  const Mapping behind(begin + lead + whole, kHugePageBytes - lead);
  // A process without either has the bytes nonetheless.
  (void)::madvise(wanted.data(), whole, MADV_HUGEPAGE);
  (void)::madvise(wanted.data(), whole, MADV_DONTFORK);
  return wanted;
}

bool LockInMemory(std::byte* data, uint64_t bytes) { return ::mlock(data, bytes) == 0; }

std::optional<uint64_t> LockedMemoryLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::nullopt;
  }
  // By its number, as it is of the calling thread alone.
  __user_cap_header_struct header{};
  header.version = _LINUX_CAPABILITY_VERSION_3;
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> rights{};
  const bool known = ::syscall(SYS_capget, &header, rights.data()) == 0;
  if (known && (rights[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0) {
    return std::nullopt;
  }
  return limit.rlim_cur;
}

}  // namespace onecopy::os
