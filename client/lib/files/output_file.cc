#include "client/lib/files/output_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "client/lib/files/partial_file.h"
#include "onecopy/range.h"
#include "onecopy/reasons.h"
#include "transport/core/ranges/zero_runs.h"
#include "transport/os/base/error.h"

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

// A file system that has no holes finds data everywhere.
bool HasNoData(int fd) {
  struct stat facts {};
  if (::fstat(fd, &facts) == 0 && facts.st_size == 0) return true;
  return ::lseek(fd, 0, SEEK_DATA) < 0 && errno == ENXIO;
}

// Whether it can be opened again as the same thing: a FIFO, or a terminal. What looks like a
// terminal and is the other end of one would be a new one.
bool MayHaveTwin(int fd, mode_t mode) {
  unsigned number = 0;
  return S_ISFIFO(mode) ||
         (S_ISCHR(mode) && ::isatty(fd) == 1 && ::ioctl(fd, TIOCGPTN, &number) != 0);
}

// A blocking write(2) into a full pipe could not be interrupted by a stop. Asking this end's own
// description not to block would change it for every process that shares it, so it is opened again;
// where that is not allowed, the write blocks.
os::UniqueFd NonBlockingTwin(int fd) {
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  return os::UniqueFd(::open(link.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

}  // namespace

Result<OutputFile::Target> OutputFile::Inspect(const LocalFile& file, uint64_t bytes,
                                               const Ask& ask) {
  if (file.bytes.has_value() && bytes > *file.bytes) {
    return Status(Code::kInvalidArgument, reasons::kSizeMismatch,
                  std::to_string(bytes) + " bytes do not fit into the range of " +
                      std::to_string(*file.bytes) + " bytes of " + file.path,
                  "give a longer range here, or a shorter one at the source");
  }
  const bool range = ask.in_place || file.offset_bytes.has_value() || file.bytes.has_value();
  ONECOPY_RETURN_IF_ERROR(CheckWithin({file.offset_bytes.value_or(0), bytes},
                                      std::numeric_limits<off_t>::max(), "any file"));
  Target target;
  if (file.fd < 0) {
    if (file.path.empty() || file.path.back() == '/') return NotAFile(file.path, "no file's name");
    ONECOPY_ASSIGN_OR_RETURN(target.place, file.folder_fd < 0
                                               ? FindNamedFile(file.path)
                                               : FindFileIn(file.folder_fd, file.path));
    if (!target.place.file && range) {
      return os::ErrnoStatus(ENOENT, "writing a range of " + file.path,
                             "leave out the range to write a new file");
    }
    if (!target.place.file) return InspectNew(file, std::move(target.place));
  }
  struct stat facts {};
  if (::fstat(file.fd >= 0 ? file.fd : target.place.file.get(), &facts) != 0) {
    return os::ErrnoStatus(errno, "looking at " + file.path);
  }
  target.mode = os::WithExecution(facts.st_mode & 07777, file.executable);
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
                  file.path + " is a stream, and a stream has no ranges", "leave out the range");
  }
  const bool regular = S_ISREG(facts.st_mode);
  if (regular && !range && target.place.folder) {
    target.kind = Kind::kReplaced;
    if (!MayWriteBeside(target.place)) {
      return os::ErrnoStatus(
          errno, "writing a file beside " + file.path,
          "give a range to write in place, which is not protected against a half-written file: " +
              file.path + "@0");
    }
    return target;
  }
  target.device = S_ISBLK(facts.st_mode);
  if (target.device && !ask.write_device) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  file.path + " is a block device, and its contents would be lost",
                  "to overwrite it, use --write-device (FileCopyOptions::write_device)");
  }
  if (range || target.device) target.kind = Kind::kInPlace;
  return target;
}

Result<OutputFile::Target> OutputFile::InspectNew(const LocalFile& file, NamedFile place) {
  if (!MayWriteBeside(place)) return os::ErrnoStatus(errno, "writing a file at " + file.path);
  Target target;
  target.kind = Kind::kReplaced;
  target.place = std::move(place);
  target.mode = os::WithExecution(0666, file.executable);  // under the kernel's umask
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
  if (target.kind == Kind::kReplaced && file.fd < 0) {
    NamedFile place = std::move(target.place);
    ONECOPY_RETURN_IF_ERROR(output.OpenNew(std::move(place), target, bytes));
    return output;
  }
  output.fd_ = file.fd;
  if (file.fd < 0) ONECOPY_RETURN_IF_ERROR(output.OpenInPlace(target, ask));
  struct stat facts {};
  if (::fstat(output.fd_, &facts) != 0) return os::ErrnoStatus(errno, "looking at " + file.path);
  if (ask.sync && !S_ISREG(facts.st_mode) && !S_ISBLK(facts.st_mode)) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  file.path + " is not on a disk, so --sync has no meaning",
                  "leave out --sync, or write a regular file");
  }
  output.socket_ = S_ISSOCK(facts.st_mode);
  if (MayHaveTwin(output.fd_, facts.st_mode)) {
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
    ONECOPY_RETURN_IF_ERROR(os::ReserveSpace(output.fd_, output.at_, bytes, output.name_));
  }
  return output;
}

Result<OutputFile> OutputFile::Continue(const LocalFile& file, uint64_t bytes, const Ask& ask,
                                        const Waiter& waiter) {
  ONECOPY_ASSIGN_OR_RETURN(Target target, Inspect(file, bytes, ask));
  if (target.kind != Kind::kReplaced || file.fd >= 0) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  "only a whole regular file can be continued, and " + file.path +
                      " is a stream, a device or a range of a file",
                  "leave out --resume");
  }
  OutputFile output(file.path);
  output.sync_ = ask.sync;
  output.kind_ = target.kind;
  NamedFile place = std::move(target.place);
  ONECOPY_RETURN_IF_ERROR(output.OpenPartial(std::move(place), target, bytes, waiter));
  return output;
}

Status OutputFile::OpenNew(NamedFile place, const Target& target, uint64_t bytes) {
  const os::NewFile::Ask ask{.mode = place.file ? mode_t{0600} : target.mode};
  ONECOPY_ASSIGN_OR_RETURN(os::NewFile made,
                           os::NewFile::Make(std::move(place.folder), place.name, name_, ask));
  TakePlace(std::move(made), std::move(place), target);
  return new_->Reserve(bytes);
}

Status OutputFile::OpenPartial(NamedFile place, const Target& target, uint64_t bytes,
                               const Waiter& waiter) {
  const mode_t mode = place.file ? mode_t{0600} : target.mode;
  ONECOPY_ASSIGN_OR_RETURN(PartialFile found, OpenPartialFile(place, name_, mode, waiter));
  // Without data it reads as zeros, as a new one does. Only now, under its lock, does that stay so:
  // another client may have written to one that this one made.
  continued_ = !HasNoData(found.file.get());
  claim_ = std::move(found.claim);
  partial_ = found.name;
  struct stat facts {};
  if (place.file && ::fstat(place.file.get(), &facts) == 0 &&
      static_cast<uint64_t>(facts.st_size) == bytes) {
    whole_ = place.Reopen(O_RDONLY);  // where the caller may not read it, it is replaced
  }
  os::UniqueFd folder = os::UniqueFd::DuplicateOf(place.folder.get());
  if (!folder) return os::ErrnoStatus(errno, "opening the folder of " + name_);
  const std::string name = place.name;
  const bool replaces = static_cast<bool>(place.file);
  ONECOPY_ASSIGN_OR_RETURN(os::NewFile made,
                           os::NewFile::Continue(std::move(place.folder), name, name_,
                                                 std::move(found.file), found.name));
  TakePlace(std::move(made), std::move(place), target);
  const Status taken = TakeModeOfNew(std::move(folder), name, replaces, target.mode);
  if (!taken.ok()) DiscardIfEmpty();
  return taken;
}

// That of its first attempt may have been right for what was in its place then: too wide or too
// narrow for what is now.
Status OutputFile::TakeModeOfNew(os::UniqueFd folder, const std::string& name, bool replaces,
                                 uint32_t mode) {
  struct stat facts {};
  uint32_t wanted = 0600;
  if (!replaces) {
    // Only the kernel knows what the umask and the folder's access list make of it.
    ONECOPY_ASSIGN_OR_RETURN(const os::NewFile sample,
                             os::NewFile::Make(std::move(folder), name, name_, {.mode = mode}));
    if (::fstat(sample.fd(), &facts) != 0) return os::ErrnoStatus(errno, "looking at " + name_);
    wanted = facts.st_mode & 07777;
  }
  if (::fstat(fd_, &facts) != 0) return os::ErrnoStatus(errno, "looking at " + partial_);
  // No wider, while it has bytes that were for fewer readers.
  const uint32_t now = facts.st_mode & 07777 & wanted;
  if (now != wanted) mode_at_end_ = wanted;
  if ((facts.st_mode & 07777) == now || ::fchmod(fd_, now) == 0) return OkStatus();
  return os::WriteFailure(errno, "giving its mode to " + partial_ + " beside " + name_);
}

Status OutputFile::Reserve(const std::vector<ByteRange>& parts) const {
  for (const ByteRange& part : parts) {
    ONECOPY_RETURN_IF_ERROR(os::ReserveSpace(fd_, part.offset, part.bytes, name_));
  }
  return OkStatus();
}

bool OutputFile::DiscardIfEmpty() {
  const bool empty = new_ && ((!continued_ && !written_) || HasNoData(fd_));
  if (empty) new_->Discard();
  return empty;
}

Status OutputFile::KeepWhole() {
  new_->Discard();
  ONECOPY_RETURN_IF_ERROR(os::SettleFile(whole_.get(), sync_, name_));
  return sync_ ? new_->SyncFolder() : OkStatus();
}

void OutputFile::TakePlace(os::NewFile made, NamedFile place, const Target& target) {
  new_.emplace(std::move(made));
  fd_ = new_->fd();
  if (place.file) {
    new_->TakeAfter({std::move(place.file), target.mode, target.uid, target.gid});
  }
}

Status OutputFile::OpenInPlace(const Target& target, const Ask& ask) {
  // A device that is mounted, or a part of another, cannot be claimed by another program. The claim
  // is not what the daemon gets, which releases it a little later.
  if (target.device) claim_ = target.place.Reopen(O_WRONLY | O_EXCL);
  if (target.device && !claim_ && errno == EBUSY) {
    return {Code::kFailedPrecondition, reasons::kDeviceInUse,
            name_ + " is in use: mounted, or a part of another device",
            "unmount it (`lsblk` shows its users), or name another device"};
  }
  if (ask.read_back) owned_ = target.place.Reopen(O_RDWR);
  if (!owned_) owned_ = target.place.Reopen(O_WRONLY);
  if (!owned_) return os::ErrnoStatus(errno, "opening " + name_);
  fd_ = owned_.get();
  return OkStatus();
}

Status OutputFile::Write(const std::byte* from, uint64_t bytes, const Waiter& waiter) {
  // What is there of an earlier copy is not zero where it is to become that.
  if (!is_new()) return WriteForeign(from, bytes, waiter);
  for (const FileRun& run : SplitAtZeros(from, bytes, at_)) {
    if (run.zero) {
      ONECOPY_RETURN_IF_ERROR(waiter.Check());
      os::PunchHole(fd_, at_, run.bytes);
      at_ += run.bytes;
    } else {
      ONECOPY_RETURN_IF_ERROR(WriteAt(from + run.at, run.bytes, waiter));
    }
  }
  return OkStatus();
}

Status OutputFile::WriteAt(const std::byte* from, uint64_t bytes, const Waiter& waiter) {
  for (uint64_t written = 0; written < bytes;) {
    ONECOPY_RETURN_IF_ERROR(waiter.Check());
    const ssize_t count = ::pwrite(fd_, from + written, std::min(bytes - written, kWrittenAtOnce),
                                   static_cast<off_t>(at_));
    if (count < 0 && errno != EINTR && errno != EAGAIN) {
      return os::WriteFailure(errno, "writing " + name_);
    }
    if (count < 0) continue;
    written_ = true;
    written += static_cast<uint64_t>(count);
    at_ += static_cast<uint64_t>(count);
  }
  return OkStatus();
}

Status OutputFile::WriteStream(const std::byte* from, uint64_t bytes, const Waiter& waiter) {
  for (uint64_t written = 0; written < bytes;) {
    ONECOPY_RETURN_IF_ERROR(waiter.Wait(fd_, POLLOUT));
    const uint64_t most = std::min(bytes - written, kWrittenAtOnce);
    // A socket cannot be opened again; but a single call for it need not block.
    const ssize_t count = socket_ ? ::send(fd_, from + written, most, MSG_DONTWAIT)
                                  : ::write(fd_, from + written, most);
    if (count < 0 && errno != EINTR && errno != EAGAIN) {
      return os::WriteFailure(errno, "writing " + name_);
    }
    if (count > 0) written += static_cast<uint64_t>(count);
  }
  return OkStatus();
}

Status OutputFile::Settle() {
  if (mode_at_end_ && ::fchmod(fd_, *mode_at_end_) != 0) {
    return os::WriteFailure(errno, "giving its mode to " + partial_ + " beside " + name_);
  }
  if (new_) return new_->Settle(sync_);
  ONECOPY_RETURN_IF_ERROR(os::SettleFile(fd_, sync_, name_));
  owned_.Reset();
  return OkStatus();
}

}  // namespace onecopy::client
