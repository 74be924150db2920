#include "bench/ceiling/payload_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "bench/measure/payload.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/os/base/error.h"
#include "transport/os/files/page_cache.h"

namespace onecopy::bench {
namespace {

constexpr uint64_t kCachePage = 4096;
constexpr uint64_t kFilePiece = uint64_t{16} << 20;  // a multiple of a payload's word
constexpr int kDropTries = 20;
// Of the file system's room this much stays free.
constexpr uint64_t kLeftFree = uint64_t{64} << 20;

Status NoSpace(const std::string& path, uint64_t bytes) {
  return {Code::kResourceExhausted, reasons::kNoSpace,
          "there is no room for a file of " + FormatBytes(bytes) + " at " + path,
          "set TMPDIR to a folder with more room, or ask for less with --sizes"};
}

}  // namespace

Result<std::unique_ptr<PayloadFile>> PayloadFile::Plan(const std::string& path, uint64_t bytes) {
  struct statvfs room {};
  struct statfs system {};
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (::statvfs(folder.c_str(), &room) != 0 || ::statfs(folder.c_str(), &system) != 0) {
    return os::ErrnoStatus(errno, "looking at " + folder);
  }
  const uint64_t free_bytes = room.f_bavail * room.f_frsize;
  if (free_bytes < kLeftFree || free_bytes - kLeftFree < bytes) return NoSpace(path, bytes);
  std::unique_ptr<PayloadFile> file(new PayloadFile(path, bytes));
  file->in_memory_ = static_cast<unsigned long>(system.f_type) == TMPFS_MAGIC;
  return file;
}

Status PayloadFile::Failed(int error, const std::string& what) const {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) return NoSpace(path_, bytes_);
  return os::ErrnoStatus(error, what + " " + path_);
}

Result<os::UniqueFd> PayloadFile::OpenDirect() const {
  os::UniqueFd direct(::open(path_.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  if (direct) return direct;
  if (errno != EINVAL) return Failed(errno, "opening");
  return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                path_ + " cannot be reached past the page cache on its file system",
                "set TMPDIR to a folder on a disk");
}

void PayloadFile::Remove() {
  fd_.Reset();
  ::unlink(path_.c_str());  // also what was renamed to it
}

Status PayloadFile::MakeEmpty() {
  Remove();
  fd_ = os::UniqueFd(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd_) return Failed(errno, "making");
  if (bytes_ == 0) return OkStatus();
  const int error = ::posix_fallocate(fd_.get(), 0, static_cast<off_t>(bytes_));
  return error == 0 ? OkStatus() : Failed(error, "reserving");
}

Status PayloadFile::Put(uint64_t seed) {
  if (!fd_) ONECOPY_RETURN_IF_ERROR(MakeEmpty());
  std::vector<std::byte> piece(std::min(bytes_, kFilePiece));
  for (uint64_t at = 0; at < bytes_; at += piece.size()) {
    const uint64_t bytes = std::min<uint64_t>(piece.size(), bytes_ - at);
    FillPayload(piece.data(), bytes, seed, at);
    const ssize_t put = ::pwrite(fd_.get(), piece.data(), bytes, static_cast<off_t>(at));
    if (put != static_cast<ssize_t>(bytes)) return Failed(put < 0 ? errno : ENOSPC, "writing");
  }
  return ::fdatasync(fd_.get()) == 0 ? OkStatus() : Failed(errno, "writing");
}

Result<uint64_t> PayloadFile::PagesInCache() const {
  if (const auto told = os::CachedPages(fd_.get(), 0, bytes_)) return *told;
  ONECOPY_ASSIGN_OR_RETURN(const os::Mapping mapping, os::MapShared(fd_.get(), bytes_));
  std::vector<unsigned char> there((bytes_ + kCachePage - 1) / kCachePage);
  if (::mincore(mapping.data(), bytes_, there.data()) != 0) return Failed(errno, "looking at");
  return std::count_if(there.begin(), there.end(), [](unsigned char one) { return one & 1; });
}

Status PayloadFile::Drop() {
  if (in_memory_) return OkStatus();
  uint64_t left = 0;
  // A page that something still looks at is kept; a moment later it is not.
  for (int i = 0; i < kDropTries; ++i) {
    if (::fdatasync(fd_.get()) != 0) return Failed(errno, "writing");
    ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED);
    ONECOPY_ASSIGN_OR_RETURN(left, PagesInCache());
    if (left == 0) return OkStatus();
  }
  return {Code::kFailedPrecondition, reasons::kNotApplicable,
          std::to_string(left) + " pages of " + path_ + " stay in the page cache",
          "set TMPDIR to a folder on a disk"};
}

Result<bool> PayloadFile::Cached() const {
  if (in_memory_) return true;
  ONECOPY_ASSIGN_OR_RETURN(const uint64_t pages, PagesInCache());
  return pages >= (bytes_ + kCachePage - 1) / kCachePage;
}

Result<bool> PayloadFile::Holds(uint64_t seed) const {
  const os::UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return Failed(errno, "opening");
  std::vector<std::byte> piece(std::min(bytes_, kFilePiece) + 1);
  for (uint64_t at = 0; at < bytes_;) {
    const uint64_t bytes = std::min<uint64_t>(piece.size() - 1, bytes_ - at);
    const ssize_t got = ::pread(fd.get(), piece.data(), bytes, static_cast<off_t>(at));
    if (got < 0) return Failed(errno, "reading");
    if (got != static_cast<ssize_t>(bytes) || FindWrong(piece.data(), bytes, seed, at)) {
      return false;
    }
    at += bytes;
  }
  // Nothing behind it either.
  return ::pread(fd.get(), piece.data(), 1, static_cast<off_t>(bytes_)) == 0;
}

}  // namespace onecopy::bench
