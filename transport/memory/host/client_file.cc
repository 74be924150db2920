#include "transport/memory/host/client_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "onecopy/range.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/os/base/error.h"

namespace onecopy::host {
namespace {

Status BadMemfd(const std::string& why) {
  return {Code::kInvalidArgument, reasons::kBadHandle, "the passed descriptor " + why,
          "pass a memfd, or POSIX shared memory, that is open for reading and writing"};
}

// With an offset of its own, if the file can be opened again: looking for holes moves it.
os::UniqueFd OpenAnew(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  os::UniqueFd anew(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return anew ? std::move(anew) : os::UniqueFd::DuplicateOf(fd);
}

}  // namespace

Status CheckMemoryFile(const ImportRequest& request) {
  if (request.fd < 0) return BadMemfd("is none");
  // The kernel answers this itself, and only for memory files: the file system of another kind of
  // file may never answer anything.
  const int seals = ::fcntl(request.fd, F_GET_SEALS);
  if (seals < 0) {
    return BadMemfd(errno == EBADF ? "was opened with O_PATH, which allows no access"
                                   : "is not a memory file (memfd, shm_open)");
  }
  if ((seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0)
    return BadMemfd("is sealed against writing");
  if ((::fcntl(request.fd, F_GETFL) & O_ACCMODE) != O_RDWR) {
    return BadMemfd("is not open for reading and writing");
  }
  struct stat facts {};
  if (::fstat(request.fd, &facts) != 0)
    return os::ErrnoStatus(errno, "looking at the passed descriptor");
  return CheckWithin({request.offset, request.bytes}, static_cast<uint64_t>(facts.st_size),
                     "a memfd");
}

bool CannotShrink(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

Result<std::unique_ptr<ClientFile>> ClientFile::Open(const ImportRequest& request,
                                                     Promises& promises) {
  struct stat facts {};
  struct statfs system {};
  os::UniqueFd fd = OpenAnew(request.fd);
  if (!fd || ::fstat(fd.get(), &facts) != 0 || ::fstatfs(fd.get(), &system) != 0) {
    return os::ErrnoStatus(errno, "opening the passed memfd");
  }
  const bool huge = static_cast<uint64_t>(system.f_type) == HUGETLBFS_MAGIC;
  auto file = std::unique_ptr<ClientFile>(
      new ClientFile(std::move(fd), request.offset, static_cast<uint64_t>(facts.st_blksize), huge));
  if (!huge) {
    ONECOPY_ASSIGN_OR_RETURN(file->promise_, promises.Make(file->fd(), request.bytes));
  }
  return file;
}

Result<ImportRequest> ClientFile::Share(uint64_t bytes) const {
  ImportRequest shared;
  shared.form = "memfd";
  shared.bytes = bytes;
  shared.offset = offset_;
  struct stat facts {};
  const int seals = ::fcntl(fd_.get(), F_GET_SEALS);
  if (seals < 0 || ::fstat(fd_.get(), &facts) != 0) {
    return os::ErrnoStatus(errno, "looking at a client's memory file");
  }
  constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  const auto size = static_cast<uint64_t>(facts.st_size);
  if (offset_ != 0 || bytes != size) {
    shared.owner_only = "it is a piece of a memory file of " + FormatBytes(size) +
                        ", and a mapping would open all of it";
  } else if ((seals & kSizeSeals) != kSizeSeals) {
    shared.owner_only =
        "its client may resize the memory file at any time, which would crash every process that "
        "maps it (seal it: F_SEAL_SHRINK and F_SEAL_GROW)";
  } else if (huge_) {
    shared.owner_only =
        "its client may free its huge pages at any time, which would crash every process that maps "
        "it";
  }
  os::UniqueFd copy = fd_.Duplicate();
  if (!copy) return os::ErrnoStatus(errno, "duplicating a client's memory file");
  shared.fd = copy.Release();
  return shared;
}

bool ClientFile::IsFull() const {
  struct stat facts {};
  return ::fstat(fd_.get(), &facts) == 0 && facts.st_blocks * 512 >= facts.st_size;
}

bool ClientFile::HasHoles(uint64_t offset, uint64_t bytes) const {
  if (IsFull()) return false;
  if (huge_) return true;  // where they are it does not say
  const auto from = static_cast<off_t>(offset_ + offset);
  const off_t hole = ::lseek(fd_.get(), from, SEEK_HOLE);
  return hole < from + static_cast<off_t>(bytes);
}

Status ClientFile::Read(uint64_t offset, std::byte* to, uint64_t bytes) const {
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t got =
        ::pread(fd_.get(), to + done, bytes - done, static_cast<off_t>(offset_ + offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return {Code::kAborted, reasons::kMemoryFault,
              "reading a client's memory file: " +
                  (got == 0 ? std::string("it has ended") : os::ErrnoText(errno)),
              "remove the buffer and register memory again"};
    }
    done += static_cast<uint64_t>(got);
  }
  return OkStatus();
}

Status ClientFile::Cover() { return promise_ == nullptr ? OkStatus() : promise_->Renew(); }

}  // namespace onecopy::host
