#include "transport/os/files/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"
#include "transport/os/files/file_attributes.h"
#include "transport/os/machine/machine.h"

namespace onecopy::os {
namespace {

constexpr int kNewFlags = O_RDWR | O_NOCTTY | O_CLOEXEC;

// What a file system says that has no files without a name.
bool HasNoUnnamed(int error) {
  return error == EOPNOTSUPP || error == EISDIR || error == EINVAL || error == ENOSYS;
}

std::string TemporaryName() { return ".onecopy-" + RandomHex(8); }

}  // namespace

mode_t WithExecution(mode_t mode, std::optional<bool> executable) {
  if (!executable) return mode;
  return (mode & ~mode_t{0111}) | (*executable ? (mode & 0444) >> 2 : 0);
}

Status WriteFailure(int error, const std::string& what) {
  if (error == EFAULT) {
    return ErrnoStatus(
        error,
        what + ": a page of the memory is missing: its file was truncated, or cannot be read",
        "keep the file's length while it is mapped");
  }
  const bool full = error == ENOSPC || error == EDQUOT;
  return ErrnoStatus(error, what, full ? "free some space there, or write elsewhere" : "");
}

int CheckNames(int folder, const std::string& name, int fd) {
  struct stat named {};
  struct stat open {};
  if (::fstatat(folder, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0 ||
      ::fstat(fd, &open) != 0) {
    return errno;
  }
  return named.st_dev == open.st_dev && named.st_ino == open.st_ino ? 0 : ESTALE;
}

Status ReserveSpace(int fd, uint64_t offset, uint64_t bytes, const std::string& label) {
  if (bytes == 0) return OkStatus();
  // Other errors only mean that this file system cannot tell.
  if (::fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes)) ==
          0 ||
      (errno != ENOSPC && errno != EDQUOT && errno != EFBIG)) {
    return OkStatus();
  }
  return WriteFailure(errno, "reserving " + std::to_string(bytes) + " bytes for " + label);
}

void PunchHole(int fd, uint64_t offset, uint64_t bytes) {
  static_cast<void>(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                static_cast<off_t>(offset), static_cast<off_t>(bytes)));
}

Status SettleFile(int fd, bool sync, const std::string& label) {
  if (sync && ::fsync(fd) != 0) {
    return WriteFailure(errno, "syncing to disk: " + label);
  }
  UniqueFd twin = UniqueFd::DuplicateOf(fd);
  if (!twin || (::close(twin.Release()) != 0 && errno != EINTR)) {
    return WriteFailure(errno, "closing " + label);
  }
  return OkStatus();
}

Result<NewFile> NewFile::Make(UniqueFd folder, std::string name, std::string label,
                              const Ask& ask) {
  NewFile file(std::move(folder), std::move(name), std::move(label));
  ONECOPY_RETURN_IF_ERROR(file.Open(ask));
  return file;
}

Result<NewFile> NewFile::Continue(UniqueFd folder, std::string name, std::string label,
                                  UniqueFd file, std::string partial) {
  NewFile taken(std::move(folder), std::move(name), std::move(label));
  taken.file_ = std::move(file);
  taken.temporary_ = std::move(partial);
  taken.kept_ = true;
  ONECOPY_RETURN_IF_ERROR(taken.CheckName());
  return taken;
}

NewFile::NewFile(NewFile&& other) noexcept
    : folder_(std::move(other.folder_)),
      name_(std::move(other.name_)),
      label_(std::move(other.label_)),
      file_(std::move(other.file_)),
      temporary_(std::exchange(other.temporary_, {})),
      kept_(other.kept_),
      replaced_(std::move(other.replaced_)),
      mode_(other.mode_) {}

NewFile::~NewFile() {
  if (!kept_) Discard();
}

bool NewFile::HasTemporary() const {
  return !temporary_.empty() && CheckNames(folder_.get(), temporary_, fd()) == 0;
}

void NewFile::Discard() {
  if (HasTemporary()) ::unlinkat(folder_.get(), temporary_.c_str(), 0);
  temporary_.clear();
}

Status NewFile::Open(const Ask& ask) {
  if (!ask.named) {
    file_ = UniqueFd(::openat(folder_.get(), ".", kNewFlags | O_TMPFILE, ask.mode));
    if (!file_ && !HasNoUnnamed(errno)) return WriteFailure(errno, "writing a file at " + label_);
  }
  if (!file_) {
    const std::string temporary = TemporaryName();
    file_ = UniqueFd(::openat(folder_.get(), temporary.c_str(),
                              kNewFlags | O_CREAT | O_EXCL | O_NOFOLLOW, ask.mode));
    if (!file_) return WriteFailure(errno, "writing " + temporary + " beside " + label_);
    temporary_ = temporary;
  }
  return CheckName();
}

// A name that is too long is told before a byte moves.
Status NewFile::CheckName() const {
  const long longest = ::fpathconf(file_.get(), _PC_NAME_MAX);
  if (longest > 0 && name_.size() > static_cast<size_t>(longest)) {
    return WriteFailure(ENAMETOOLONG, "writing " + label_);
  }
  return OkStatus();
}

Status NewFile::Reserve(uint64_t bytes) {
  ONECOPY_RETURN_IF_ERROR(ReserveSpace(fd(), 0, bytes, label_));
  return SetLength(bytes);
}

Status NewFile::SetLength(uint64_t bytes) {
  if (::ftruncate(fd(), static_cast<off_t>(bytes)) == 0) return OkStatus();
  return WriteFailure(errno, "making " + label_ + " " + std::to_string(bytes) + " bytes long");
}

// In a folder that sets it, a new file has the folder's group.
Status NewFile::TakeOwners(uint32_t* mode) const {
  struct stat now {};
  if (::fstat(fd(), &now) != 0) return WriteFailure(errno, "looking at " + label_);
  const bool same = now.st_uid == replaced_->uid && now.st_gid == replaced_->gid;
  if (same || ::fchown(fd(), replaced_->uid, replaced_->gid) == 0) return OkStatus();
  // Not ours to give away: then no user may run it as the owner that it no longer has,
  *mode &= 0777;
  if (now.st_gid == replaced_->gid || ::fchown(fd(), -1, replaced_->gid) == 0) return OkStatus();
  // and no other group has what that one had, but what all users have.
  *mode &= 0707 | (*mode & 07) << 3;
  return OkStatus();
}

Status NewFile::Resemble() const {
  std::optional<uint32_t> mode = replaced_ ? replaced_->mode : mode_;
  if (replaced_) ONECOPY_RETURN_IF_ERROR(TakeOwners(&*mode));
  if (mode && ::fchmod(fd(), *mode) != 0) {
    return WriteFailure(errno, "giving its mode to " + label_);
  }
  return replaced_ ? CopyAttributes(replaced_->file.get(), fd(), label_) : OkStatus();
}

Status NewFile::Settle(bool sync) {
  ONECOPY_RETURN_IF_ERROR(Resemble());
  return SettleFile(fd(), sync, label_);
}

Status NewFile::GiveTemporaryName() {
  if (!temporary_.empty()) return OkStatus();
  const std::string temporary = TemporaryName();
  const std::string self = "/proc/self/fd/" + std::to_string(fd());
  if (::linkat(AT_FDCWD, self.c_str(), folder_.get(), temporary.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    return WriteFailure(errno, "writing " + temporary + " beside " + label_);
  }
  temporary_ = temporary;
  return OkStatus();
}

// A kept name is known beforehand, so that others may remove it and make it anew.
Status NewFile::CheckTemporary() const {
  const int error = CheckNames(folder_.get(), temporary_, fd());
  if (error == 0) return OkStatus();
  const std::string what = "renaming " + temporary_ + " to " + label_;
  if (error != ESTALE) return ErrnoStatus(error, what, "copy again, and let the file stay");
  return {Code::kFailedPrecondition, reasons::kFileInUse,
          what + ": another file has got that name meanwhile, as by another client",
          "wait until that copy has ended, then copy again"};
}

Status NewFile::Name(bool sync) {
  ONECOPY_RETURN_IF_ERROR(GiveTemporaryName());
  ONECOPY_RETURN_IF_ERROR(CheckTemporary());
  if (::renameat(folder_.get(), temporary_.c_str(), folder_.get(), name_.c_str()) != 0) {
    return WriteFailure(errno, "renaming " + temporary_ + " to " + label_);
  }
  temporary_.clear();
  return sync ? SyncFolder() : OkStatus();
}

Status NewFile::SyncFolder() const {
  const UniqueFd folder(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) != 0) {
    return WriteFailure(errno, "syncing to disk: the name " + label_);
  }
  return OkStatus();
}

}  // namespace onecopy::os
