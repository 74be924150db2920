#include "transport/store/posix/open_descriptor.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"
#include "transport/os/files/descriptor_kind.h"
#include "transport/os/files/page_cache.h"

namespace onecopy::posix {
namespace {

// Below, opening the way to the device costs more than the page cache's copy.
constexpr uint64_t kMinDirectBytes = uint64_t{1} << 20;

// Of the kernel's making: they are as long as what is read of them turns out to be.
constexpr std::array<unsigned long, 8> kWithoutLength = {
    PROC_SUPER_MAGIC,   SYSFS_MAGIC,         DEBUGFS_MAGIC,    TRACEFS_MAGIC,
    CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, SECURITYFS_MAGIC, BPF_FS_MAGIC};
// Of what is to be tried, no more than one page in so many is in the page cache.
constexpr uint64_t kColdShare = 16;

template <size_t N>
bool IsOneOf(const std::array<unsigned long, N>& types, const struct statfs& system) {
  return std::find(types.begin(), types.end(), static_cast<unsigned long>(system.f_type)) !=
         types.end();
}

Status BadHandle(const std::string& what) {
  return {
      Code::kInvalidArgument, reasons::kBadHandle, what,
      "pass a descriptor of a regular file or a block device, opened for reading or for writing"};
}

Status CheckFlags(const OpenFileRequest& request, int flags) {
  if ((flags & O_PATH) != 0) return BadHandle(request.name + " was opened with O_PATH");
  const int access = flags & O_ACCMODE;
  const bool write = request.use == FileUse::kWrite;
  const bool both = write && request.read_back;
  if (access != O_RDWR && (both || access != (write ? O_WRONLY : O_RDONLY))) {
    return {Code::kPermissionDenied, reasons::kAccessDenied,
            request.name + " was not opened for " +
                (both    ? "reading and writing, as a checksum needs"
                 : write ? "writing"
                         : "reading"),
            "open the file for that access, and pass the new descriptor"};
  }
  if (write && (flags & O_APPEND) != 0) {
    return BadHandle(request.name +
                     " was opened for appending (O_APPEND), but must be written in place");
  }
  if ((flags & O_DIRECT) != 0) return BadHandle(request.name + " was opened with O_DIRECT");
  return OkStatus();
}

// As nothing where the kernel does not say.
uint64_t CachedPages(int fd, uint64_t offset, uint64_t bytes) {
  return os::CachedPages(fd, offset, bytes).value_or(0);
}

// Whether the device really reads into memory: a file system may take O_DIRECT and do otherwise, as
// ext4 does for a file that is encrypted or journalled.
bool ReadsDirectly(int direct_fd, const ByteRange& range) {
  const uint64_t at = (range.offset + range.bytes / 2) / kGrain * kGrain;
  if (at < range.offset || at + kGrain > range.offset + range.bytes) return false;
  if (IsCached(direct_fd, at, kGrain)) return true;  // nothing is to be seen there
  const std::unique_ptr<void, decltype(&std::free)> block(std::aligned_alloc(kGrain, kGrain),
                                                          &std::free);
  if (block == nullptr) return false;
  const ssize_t got = ::pread(direct_fd, block.get(), kGrain, static_cast<off_t>(at));
  return got == static_cast<ssize_t>(kGrain) && !IsCached(direct_fd, at, kGrain);
}

// Whether there is a way past the page cache at all.
Result<bool> HasDirect(const OpenFileRequest& request, const struct stat& file) {
  if (request.direct_fd < 0) return false;
  struct stat other {};
  const int flags = ::fcntl(request.direct_fd, F_GETFL);
  if (flags < 0 || ::fstat(request.direct_fd, &other) != 0 || other.st_dev != file.st_dev ||
      other.st_ino != file.st_ino || (flags & O_DIRECT) == 0) {
    return BadHandle("the second descriptor for " + request.name +
                     " is not the same file, opened with O_DIRECT");
  }
  ONECOPY_RETURN_IF_ERROR(CheckFlags(request, flags & ~O_DIRECT));
  return true;
}

// What will be read, as far as is known.
ByteRange RangeOf(const OpenFileRequest& request, uint64_t size) {
  const uint64_t rest = size - std::min(size, request.offset_bytes);
  return {request.offset_bytes, std::min(rest, request.bytes.value_or(rest))};
}

// Which way goes what is read; perhaps both by turns.
void ChooseForReads(const OpenFileRequest& request, dev_t mount, uint64_t size, Mounts& mounts,
                    FileFacts& facts) {
  const ByteRange range = RangeOf(request, size);
  if (range.bytes < kMinDirectBytes) return;
  // What is mostly in memory comes faster from there.
  const uint64_t cached = CachedPages(request.direct_fd, range.offset, range.bytes);
  const uint64_t pages = range.bytes / kGrain;
  if (cached > pages / 2) return;
  const bool fewest = request.fewest_copies && facts.kind->direct;
  if (!request.fewest_copies && range.bytes >= kLeastToTryWays && cached < pages / kColdShare) {
    facts.turn = mounts.Take(mount);
  }
  if (facts.turn == nullptr && !facts.verdict.direct && !fewest) return;
  facts.direct = ReadsDirectly(request.direct_fd, range);
  // What does not go directly here is of no use for knowing how fast that would be.
  if (!facts.direct) facts.turn = nullptr;
}

// What is written is never tried: it could be data that the user wants to keep. `mount`: what rates
// are known by.
Status ChooseWay(const OpenFileRequest& request, const struct stat& file, dev_t mount,
                 uint64_t size, Mounts& mounts, FileFacts& facts) {
  facts.verdict = mounts.Of(mount, *facts.kind, facts.drive.words);
  ONECOPY_ASSIGN_OR_RETURN(const bool has_direct, HasDirect(request, file));
  if (!has_direct || facts.kind->in_memory) return OkStatus();
  if (request.use == FileUse::kRead) {
    ChooseForReads(request, mount, size, mounts, facts);
  } else {
    facts.direct = facts.kind->direct && request.bytes.value_or(0) >= kMinDirectBytes;
  }
  return OkStatus();
}

// Who copies what is read through the page cache; perhaps both by turns.
void ChooseWho(const OpenFileRequest& request, uint64_t size, CachedReads& cached_reads,
               FileFacts& facts) {
  if (request.use != FileUse::kRead || facts.direct) return;
  const ByteRange range = RangeOf(request, size);
  const uint64_t pages = range.bytes / kGrain;
  const uint64_t cached =
      facts.kind->in_memory ? pages : CachedPages(request.fd, range.offset, range.bytes);
  facts.cached = cached > pages / 2;
  // What has to come from a device first would tell of that.
  if (range.bytes >= CachedReads::kLeastBytes && cached >= pages - pages / kColdShare) {
    facts.who = cached_reads.Take();
  }
}

constexpr FileSystemKind kBlockDevice{0, "a block device", false, true};

Result<FileFacts> InspectDevice(const OpenFileRequest& request, const struct stat& file,
                                Mounts& mounts, DrivePlaces& drives, CachedReads& cached_reads) {
  FileFacts facts;
  facts.kind = &kBlockDevice;
  facts.drive = drives.Of(file.st_rdev, kBlockDevice);
  static_assert(sizeof(facts.bytes) == sizeof(uint64_t), "what BLKGETSIZE64 answers with");
  if (::ioctl(request.fd, BLKGETSIZE64, &facts.bytes) != 0) {
    return os::ErrnoStatus(errno, "finding the length of " + request.name);
  }
  ONECOPY_RETURN_IF_ERROR(ChooseWay(request, file, file.st_rdev, facts.bytes, mounts, facts));
  ChooseWho(request, facts.bytes, cached_reads, facts);
  return facts;
}

}  // namespace

bool IsCached(int fd, uint64_t offset, uint64_t bytes) {
  return CachedPages(fd, offset, bytes) > 0;
}

Result<FileFacts> InspectDescriptor(const OpenFileRequest& request, Mounts& mounts,
                                    DrivePlaces& drives, CachedReads& cached_reads) {
  const int flags = ::fcntl(request.fd, F_GETFL);
  if (flags < 0) return os::ErrnoStatus(errno, "looking at " + request.name);
  ONECOPY_RETURN_IF_ERROR(CheckFlags(request, flags));
  struct stat file {};
  if (::fstat(request.fd, &file) != 0) return os::ErrnoStatus(errno, "looking at " + request.name);
  if (S_ISBLK(file.st_mode)) return InspectDevice(request, file, mounts, drives, cached_reads);
  if (!S_ISREG(file.st_mode)) {
    return BadHandle(request.name + " is neither a regular file nor a block device: it is " +
                     os::DescribeDescriptor(request.fd));
  }
  struct statfs system {};
  if (::fstatfs(request.fd, &system) != 0) {
    return os::ErrnoStatus(errno, "looking at the file system of " + request.name);
  }
  if (static_cast<unsigned long>(system.f_type) == FUSE_SUPER_MAGIC) {
    return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                  request.name + " is served by a program (FUSE), which may never answer",
                  "let the client read or write it through its own memory, as `onecopy cp` does");
  }
  if (IsOneOf(kWithoutLength, system)) {
    return BadHandle(request.name + " is a virtual file of the kernel, which has no length");
  }
  FileFacts facts;
  facts.bytes = request.use == FileUse::kWrite
                    ? static_cast<uint64_t>(std::numeric_limits<off_t>::max())
                    : static_cast<uint64_t>(file.st_size);
  facts.kind = &KindOf(static_cast<unsigned long>(system.f_type));
  facts.drive = drives.Of(file.st_dev, *facts.kind);
  const auto size = static_cast<uint64_t>(file.st_size);
  if (request.is_new) facts.zero_until = size;
  ONECOPY_RETURN_IF_ERROR(ChooseWay(request, file, file.st_dev, size, mounts, facts));
  ChooseWho(request, size, cached_reads, facts);
  return facts;
}

}  // namespace onecopy::posix
