#include "transport/os/output_beneath.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <limits>
#include <utility>

#include "onecopy/range.h"
#include "onecopy/reasons.h"
#include "transport/os/descriptor_kind.h"
#include "transport/os/error.h"
#include "transport/os/look_beneath.h"
#include "transport/os/machine.h"

namespace onecopy::os {
namespace {

constexpr int kFlags = O_NOCTTY | O_CLOEXEC;

std::string SelfPath(const UniqueFd& fd) { return "/proc/self/fd/" + std::to_string(fd.get()); }

Status Failure(int error, const std::string& what) {
  return ErrnoStatus(
      error, what,
      error == ENOSPC || error == EDQUOT ? "free some space there, or write elsewhere" : "");
}

// What a file system says that has no files without a name.
bool HasNoUnnamed(int error) {
  return error == EOPNOTSUPP || error == EISDIR || error == EINVAL || error == ENOSYS;
}

std::string TemporaryName() { return ".onecopy-" + RandomHex(8); }

}  // namespace

Result<std::shared_ptr<OutputBeneath>> OutputBeneath::Open(const std::string& root,
                                                           const std::string& path,
                                                           const std::string& name,
                                                           const Ask& ask) {
  ONECOPY_RETURN_IF_ERROR(CheckWithin({ask.offset_bytes, ask.bytes},
                                      static_cast<uint64_t>(std::numeric_limits<off_t>::max()),
                                      "any file"));
  std::shared_ptr<OutputBeneath> output(new OutputBeneath(name));
  UniqueFd top(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!top) return FailureBeneath(errno, "writing", name);
  const size_t slash = path.rfind('/');
  output->final_name_ = path.substr(slash == std::string::npos ? 0 : slash + 1);
  output->folder_ =
      slash == std::string::npos ? std::move(top) : LookBeneath(top.get(), path.substr(0, slash));
  if (!output->folder_) {
    return FailureBeneath(errno, "writing", name,
                          errno == ENOENT ? "make its folder there first" : "");
  }
  ONECOPY_RETURN_IF_ERROR(output->Inspect(ask));
  ONECOPY_RETURN_IF_ERROR(ask.in_place ? output->OpenInPlace(ask) : output->OpenNew(ask));
  if (!ask.only_look) ONECOPY_RETURN_IF_ERROR(output->Reserve(ask));
  return output;
}

Status OutputBeneath::Inspect(const Ask& ask) {
  in_place_ = ask.in_place;
  struct stat facts {};
  if (::fstat(folder_.get(), &facts) != 0) return FailureBeneath(errno, "writing", name_);
  if (!S_ISDIR(facts.st_mode)) {
    return FailureBeneath(S_ISLNK(facts.st_mode) ? ELOOP : ENOTDIR, "writing", name_);
  }
  UniqueFd found = LookBeneath(folder_.get(), final_name_);
  if (!found && errno == ENOENT) {
    if (!ask.in_place) return OkStatus();
    return FailureBeneath(ENOENT, "writing a range of", name_,
                          "leave the range out to write a new file");
  }
  if (!found || ::fstat(found.get(), &facts) != 0) return FailureBeneath(errno, "writing", name_);
  if (S_ISLNK(facts.st_mode)) return FailureBeneath(ELOOP, "writing", name_);
  if (!S_ISREG(facts.st_mode)) {
    return {Code::kInvalidArgument, reasons::kBadHandle,
            name_ + " is no regular file: it is " + DescribeDescriptor(found.get()),
            "name a regular file, or one that is not there yet"};
  }
  // As the kernel would judge who opens it: a folder's right alone is none on the files in it.
  if (::faccessat(AT_FDCWD, SelfPath(found).c_str(), W_OK, AT_EACCESS) != 0) {
    return FailureBeneath(errno, "writing", name_);
  }
  target_ = {true, facts.st_mode & 0777, facts.st_uid, facts.st_gid};
  if (!ask.in_place) return OkStatus();
  if (facts.st_nlink != 1 || (facts.st_mode & (S_ISUID | S_ISGID)) != 0) {
    const std::string why = facts.st_nlink != 1 ? "it has other names (hard links)"
                                                : "it has a set-user-ID or set-group-ID bit";
    return {Code::kPermissionDenied, reasons::kAccessDenied,
            name_ + " is not written in place: " + why, "write the whole file"};
  }
  found_ = std::move(found);
  return OkStatus();
}

Status OutputBeneath::OpenInPlace(const Ask& ask) {
  // That very file, whatever its name stands for by now.
  const int flags = kFlags | (ask.read_back ? O_RDWR : O_WRONLY);
  plain_ = UniqueFd(::open(SelfPath(found_).c_str(), flags));
  if (!plain_) return FailureBeneath(errno, "opening", name_);
  direct_ = UniqueFd(::open(SelfPath(found_).c_str(), flags | O_DIRECT));
  found_ = UniqueFd();
  return OkStatus();
}

Status OutputBeneath::OpenNew(const Ask& ask) {
  if (!ask.named) {
    plain_ = UniqueFd(::openat(folder_.get(), ".", kFlags | O_TMPFILE | O_RDWR, 0600));
    if (!plain_ && !HasNoUnnamed(errno)) return Failure(errno, "writing a file at " + name_);
  }
  if (!plain_) {
    const std::string temporary = TemporaryName();
    plain_ = UniqueFd(::openat(folder_.get(), temporary.c_str(),
                               kFlags | O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
    if (!plain_) return Failure(errno, "writing " + temporary + " beside " + name_);
    temporary_ = temporary;
  }
  if (!target_.exists) target_.mode = ask.mode;
  direct_ = UniqueFd(::open(SelfPath(plain_).c_str(), kFlags | O_RDWR | O_DIRECT));
  // A name that is too long is told before a byte moves.
  const long longest = ::fpathconf(plain_.get(), _PC_NAME_MAX);
  if (longest > 0 && final_name_.size() > static_cast<size_t>(longest)) {
    return Failure(ENAMETOOLONG, "writing " + name_);
  }
  return OkStatus();
}

Status OutputBeneath::Reserve(const Ask& ask) const {
  if (ask.bytes == 0) return OkStatus();
  // Other errors only mean that this file system cannot tell.
  if (::fallocate(plain_.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(ask.offset_bytes),
                  static_cast<off_t>(ask.bytes)) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    return Failure(errno, "reserving " + std::to_string(ask.bytes) + " bytes for " + name_);
  }
  return OkStatus();
}

OutputBeneath::~OutputBeneath() {
  if (!temporary_.empty()) ::unlinkat(folder_.get(), temporary_.c_str(), 0);
}

Status OutputBeneath::GiveName() {
  if (!temporary_.empty()) return OkStatus();
  const std::string temporary = TemporaryName();
  if (::linkat(AT_FDCWD, SelfPath(plain_).c_str(), folder_.get(), temporary.c_str(),
               AT_SYMLINK_FOLLOW) != 0) {
    return Failure(errno, "writing " + temporary + " beside " + name_);
  }
  temporary_ = temporary;
  return OkStatus();
}

Status OutputBeneath::TakeAfter() const {
  if (::fchmod(plain_.get(), target_.mode) != 0) {
    return Failure(errno, "giving a mode to " + name_);
  }
  if (target_.exists && (target_.uid != ::geteuid() || target_.gid != ::getegid())) {
    // Not ours to give away: then it is ours, as a new one would be.
    (void)!::fchown(plain_.get(), target_.uid, target_.gid);
  }
  return OkStatus();
}

Status OutputBeneath::Commit(bool sync, const std::atomic<bool>& stop) {
  const Status stopped(Code::kCancelled, reasons::kCancelled, "before " + name_ + " had its name");
  if (stop) return stopped;
  if (!in_place_) ONECOPY_RETURN_IF_ERROR(TakeAfter());
  if (sync && ::fsync(plain_.get()) != 0) {
    return Failure(errno, "waiting for the disk to have " + name_);
  }
  // A network file system may find only where a descriptor is closed that the disk is full.
  UniqueFd twin = plain_.Duplicate();
  if (!twin) return Failure(errno, "closing " + name_);
  if (::close(twin.Release()) != 0 && errno != EINTR) return Failure(errno, "closing " + name_);
  if (in_place_) return OkStatus();
  if (stop) return stopped;
  ONECOPY_RETURN_IF_ERROR(GiveName());
  if (::renameat(folder_.get(), temporary_.c_str(), folder_.get(), final_name_.c_str()) != 0) {
    return Failure(errno, "renaming " + temporary_ + " to " + name_);
  }
  temporary_.clear();
  if (!sync) return OkStatus();
  const UniqueFd folder(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) != 0) {
    return Failure(errno, "waiting for the disk to have the name " + name_);
  }
  return OkStatus();
}

}  // namespace onecopy::os
