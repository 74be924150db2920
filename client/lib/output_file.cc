#include "client/lib/output_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <utility>

#include "onecopy/range.h"
#include "onecopy/reasons.h"
#include "transport/os/error.h"
#include "transport/os/machine.h"

namespace onecopy::client {
namespace {

constexpr uint64_t kWrittenAtOnce = 8 << 20;  // written at once, between two looks at the waiter

// As the kernel will judge the caller when it comes to writing.
bool MayWrite(const NamedFile& place) {
  return ::faccessat(place.folder.get(), place.name.c_str(), W_OK,
                     AT_EACCESS | AT_SYMLINK_NOFOLLOW) == 0;
}
bool MayWriteBeside(const NamedFile& place) {
  return ::faccessat(place.folder.get(), ".", W_OK | X_OK, AT_EACCESS) == 0;
}

Status NotAFile(const std::string& name, const std::string& what) {
  return {Code::kInvalidArgument, reasons::kBadArgument, name + " is " + what,
          "name the file to be written"};
}

Status NoSpaceAware(int error, const std::string& what) {
  return os::ErrnoStatus(
      error, what, error == ENOSPC || error == EDQUOT ? "free some space, or write elsewhere" : "");
}

// A blocking write(2) into a full pipe could not be interrupted by a stop. Asking this end's own
// description not to block would change it for every process that shares it, so it is opened anew;
// where that is not allowed, the write blocks.
os::UniqueFd NonBlockingTwin(int fd) {
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  return os::UniqueFd(::open(link.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
}

}  // namespace

Result<OutputFile::Target> OutputFile::Inspect(const LocalFile& file, uint64_t bytes,
                                               const Ask& ask) {
  if (file.bytes.has_value() && bytes > *file.bytes) {
    return Status(Code::kInvalidArgument, reasons::kSizeMismatch,
                  std::to_string(bytes) + " bytes do not fit into the range of " +
                      std::to_string(*file.bytes) + " bytes of " + file.path,
                  "give a longer range, or a shorter one of the source");
  }
  const bool range = ask.in_place || file.offset_bytes.has_value() || file.bytes.has_value();
  ONECOPY_RETURN_IF_ERROR(CheckWithin({file.offset_bytes.value_or(0), bytes},
                                      std::numeric_limits<off_t>::max(), "any file"));
  Target target;
  if (file.fd < 0) {
    if (file.path.empty() || file.path.back() == '/') return NotAFile(file.path, "no file's name");
    ONECOPY_ASSIGN_OR_RETURN(target.place, FindNamedFile(file.path));
    if (!target.place.file && range) {
      return os::ErrnoStatus(ENOENT, "writing a range of " + file.path,
                             "leave the range out to write a new file");
    }
    if (!target.place.file) return InspectNew(file, std::move(target.place));
  }
  struct stat facts {};
  if (::fstat(file.fd >= 0 ? file.fd : target.place.file.get(), &facts) != 0) {
    return os::ErrnoStatus(errno, "looking at " + file.path);
  }
  target.exists = true;
  target.mode = facts.st_mode & 07777;
  target.uid = facts.st_uid;
  target.gid = facts.st_gid;
  if (S_ISDIR(facts.st_mode)) return NotAFile(file.path, "a folder");
  // An event counter or the like, which got the number of a stream that was closed.
  if ((facts.st_mode & S_IFMT) == 0) return NotAFile(file.path, "not open");
  if (target.place.folder && !MayWrite(target.place)) {
    return os::ErrnoStatus(errno, "writing " + file.path);
  }
  if (range && (S_ISFIFO(facts.st_mode) || S_ISSOCK(facts.st_mode))) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  file.path + " is a stream, which has no ranges", "leave the range out");
  }
  const bool regular = S_ISREG(facts.st_mode);
  if (regular && !range && target.place.folder) {
    target.kind = Kind::kReplaced;
    if (!MayWriteBeside(target.place)) {
      return os::ErrnoStatus(errno, "writing a file beside " + file.path,
                             "write in place, without protection against a half-written file, by "
                             "giving a range: " +
                                 file.path + "@0");
    }
    return target;
  }
  target.device = S_ISBLK(facts.st_mode);
  if (target.device && !ask.write_device) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  file.path + " is a block device, whose bytes would be lost",
                  "if that is what you want, say --write-device (FileCopyOptions::write_device)");
  }
  if (range || target.device) target.kind = Kind::kInPlace;
  return target;
}

Result<OutputFile::Target> OutputFile::InspectNew(const LocalFile& file, NamedFile place) {
  if (!MayWriteBeside(place)) return os::ErrnoStatus(errno, "writing a file at " + file.path);
  Target target;
  target.kind = Kind::kReplaced;
  target.place = std::move(place);
  return target;
}

Result<os::UniqueFd> OutputFile::Sample(const LocalFile& file, uint64_t bytes, const Ask& ask) {
  ONECOPY_ASSIGN_OR_RETURN(const Target target, Inspect(file, bytes, ask));
  if (target.kind == Kind::kStream) return os::UniqueFd();
  if (file.fd >= 0) return os::UniqueFd::DuplicateOf(file.fd);
  if (target.kind == Kind::kInPlace) return target.place.Reopen(O_WRONLY);
  return os::UniqueFd(
      ::openat(target.place.folder.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
}

Result<OutputFile> OutputFile::Open(const LocalFile& file, uint64_t bytes, const Ask& ask) {
  ONECOPY_ASSIGN_OR_RETURN(Target target, Inspect(file, bytes, ask));
  OutputFile output(file.path);
  output.sync_ = ask.sync;
  output.kind_ = target.kind;
  output.at_ = file.offset_bytes.value_or(0);
  if (file.fd >= 0) {
    output.fd_ = file.fd;
  } else if (target.kind == Kind::kReplaced) {
    ONECOPY_RETURN_IF_ERROR(output.OpenTemporary(std::move(target)));
  } else {
    // A device that is mounted, or a part of another, is nobody else's to claim. The claim is not
    // what the daemon gets, which lets go of it a little later.
    if (target.device) output.claim_ = target.place.Reopen(O_WRONLY | O_EXCL);
    if (target.device && !output.claim_ && errno == EBUSY) {
      return Status(Code::kFailedPrecondition, reasons::kDeviceInUse,
                    file.path + " is in use: mounted, or a part of another device",
                    "unmount it first (`lsblk` shows what uses it), or name another one");
    }
    if (ask.read_back) output.owned_ = target.place.Reopen(O_RDWR);
    if (!output.owned_) output.owned_ = target.place.Reopen(O_WRONLY);
    if (!output.owned_) return os::ErrnoStatus(errno, "opening " + file.path);
    output.fd_ = output.owned_.get();
  }
  struct stat facts {};
  if (::fstat(output.fd_, &facts) != 0) return os::ErrnoStatus(errno, "looking at " + file.path);
  if (ask.sync && !S_ISREG(facts.st_mode) && !S_ISBLK(facts.st_mode)) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  file.path + " is on no disk that could be waited for",
                  "leave --sync out, or write a file");
  }
  if (S_ISFIFO(facts.st_mode)) {
    if (os::UniqueFd twin = NonBlockingTwin(output.fd_); twin) {
      output.owned_ = std::move(twin);
      output.fd_ = output.owned_.get();
    }
  }
  if (S_ISBLK(facts.st_mode)) {
    const off_t end = ::lseek(output.fd_, 0, SEEK_END);
    if (end < 0) return os::ErrnoStatus(errno, "finding the length of " + file.path);
    ONECOPY_RETURN_IF_ERROR(
        CheckWithin({output.at_, bytes}, static_cast<uint64_t>(end), file.path));
  }
  if (S_ISREG(facts.st_mode) && output.kind_ != Kind::kStream) {
    ONECOPY_RETURN_IF_ERROR(output.Reserve(bytes));
  }
  return output;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : name_(std::move(other.name_)),
      kind_(other.kind_),
      owned_(std::move(other.owned_)),
      claim_(std::move(other.claim_)),
      fd_(other.fd_),
      sync_(other.sync_),
      at_(other.at_),
      folder_(std::move(other.folder_)),
      temporary_(std::exchange(other.temporary_, {})),
      final_name_(std::move(other.final_name_)) {}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlinkat(folder_.get(), temporary_.c_str(), 0);
}

Status OutputFile::OpenTemporary(Target target) {
  folder_ = std::move(target.place.folder);
  final_name_ = std::move(target.place.name);
  const std::string temporary = ".onecopy-" + os::RandomHex(8);
  // The kernel's umask makes a new file's mode.
  const mode_t mode = target.exists ? 0600 : 0666;
  owned_ = os::UniqueFd(
      ::openat(folder_.get(), temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!owned_) return NoSpaceAware(errno, "writing " + temporary + " beside " + name_);
  temporary_ = temporary;
  fd_ = owned_.get();
  if (!target.exists) return OkStatus();
  uint32_t kept_mode = target.mode;
  if ((target.uid != ::geteuid() || target.gid != ::getegid()) &&
      ::fchown(fd_, target.uid, target.gid) != 0) {
    // Not ours to give away: then nobody may run it as the owner that it no longer has.
    kept_mode &= 0777;
  }
  if (::fchmod(fd_, kept_mode) != 0) {
    return os::ErrnoStatus(errno, "keeping the mode of " + name_);
  }
  return OkStatus();
}

Status OutputFile::Reserve(uint64_t bytes) {
  if (bytes == 0) return OkStatus();
  // Other errors only mean that this file system cannot tell.
  if (::fallocate(fd_, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at_), static_cast<off_t>(bytes)) !=
          0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    return NoSpaceAware(errno, "reserving " + std::to_string(bytes) + " bytes for " + name_);
  }
  return OkStatus();
}

Status OutputFile::Write(const std::byte* from, uint64_t bytes, const Waiter& waiter) {
  uint64_t written = 0;
  while (written < bytes) {
    if (kind_ == Kind::kStream) {
      ONECOPY_RETURN_IF_ERROR(waiter.Wait(fd_, POLLOUT));
    } else {
      ONECOPY_RETURN_IF_ERROR(waiter.Check());
    }
    const uint64_t piece = std::min(bytes - written, kWrittenAtOnce);
    const ssize_t count = kind_ == Kind::kStream
                              ? ::write(fd_, from + written, piece)
                              : ::pwrite(fd_, from + written, piece, static_cast<off_t>(at_));
    if (count < 0) {
      if (errno == EINTR || errno == EAGAIN) continue;
      return NoSpaceAware(errno, "writing " + name_);
    }
    written += static_cast<uint64_t>(count);
    at_ += static_cast<uint64_t>(count);
  }
  return OkStatus();
}

Status OutputFile::SyncFolder() const {
  const os::UniqueFd folder(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) != 0) {
    return NoSpaceAware(errno, "waiting for the disk to have the name " + name_);
  }
  return OkStatus();
}

Status OutputFile::Commit() {
  if (sync_ && ::fsync(fd_) != 0) {
    return NoSpaceAware(errno, "waiting for the disk to have " + name_);
  }
  if (!owned_) return OkStatus();
  // A network file system may find only here that the disk is full.
  if (::close(owned_.Release()) != 0 && errno != EINTR) {
    return NoSpaceAware(errno, "closing " + name_);
  }
  if (kind_ != Kind::kReplaced) return OkStatus();
  if (::renameat(folder_.get(), temporary_.c_str(), folder_.get(), final_name_.c_str()) != 0) {
    return NoSpaceAware(errno, "renaming " + temporary_ + " to " + name_);
  }
  temporary_.clear();
  return sync_ ? SyncFolder() : OkStatus();
}

}  // namespace onecopy::client
