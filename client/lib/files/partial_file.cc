#include "client/lib/files/partial_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"
#include "transport/os/files/new_file.h"

namespace onecopy::client {
namespace {

constexpr int kOpenTries = 16;  // while other clients make and rename it
// Far behind any byte. These locks belong to an open file, not to a process, as flock's do; flock
// has only one for the whole file.
constexpr off_t kClaimLock = off_t{1} << 62;
constexpr off_t kFileLock = kClaimLock + 1;
constexpr std::chrono::seconds kDaemonsTime{10};
constexpr std::chrono::milliseconds kLockPoll{10};

// 0, or errno: EAGAIN where another has the lock.
int TryLock(int fd, off_t at) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = at;
  lock.l_len = 1;
  if (::fcntl(fd, F_OFD_SETLK, &lock) == 0) return 0;
  return errno == EACCES ? EAGAIN : errno;
}

class Opening {
 public:
  Opening(const NamedFile& target, std::string label, mode_t mode, const Waiter& waiter)
      : target_(target), label_(std::move(label)), mode_(mode), waiter_(waiter) {
    partial_.name = "." + target.name + ".onecopy-part";
  }

  Result<PartialFile> Run() {
    for (int i = 0; i < kOpenTries; ++i) {
      ONECOPY_RETURN_IF_ERROR(waiter_.Check());
      ONECOPY_ASSIGN_OR_RETURN(const bool ours, Try());
      if (!ours) continue;
      ONECOPY_RETURN_IF_ERROR(AwaitDaemon());
      return std::move(partial_);
    }
    return InUse("other clients keep replacing it");
  }

 private:
  Status Failed(int error, const std::string& what) const {
    return os::ErrnoStatus(
        error, what + " " + partial_.name + " beside " + label_,
        error == ENAMETOOLONG ? "leave out --resume, or choose a shorter name" : "");
  }
  Status LockFailed(int error) const {
    return os::ErrnoStatus(error, "locking " + partial_.name + " beside " + label_,
                           "leave out --resume, which needs locks of open files there");
  }
  Status Refused(const std::string& what) const {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            partial_.name + " beside " + label_ + " is " + what +
                ", and a copy that is continued needs that name for a file of its own",
            "remove it, or leave out --resume"};
  }
  Status InUse(const std::string& why) const {
    return {Code::kFailedPrecondition, reasons::kFileInUse,
            partial_.name + " beside " + label_ + " is in use: " + why,
            "wait until that copy has ended"};
  }

  Status Check(const NamedFile& found) const {
    struct stat facts {};
    if (::fstat(found.file.get(), &facts) != 0) return Failed(errno, "looking at");
    if (S_ISLNK(facts.st_mode)) return Refused("a symbolic link");
    if (S_ISDIR(facts.st_mode)) return Refused("a folder");
    if (!S_ISREG(facts.st_mode)) return Refused("not a regular file");
    if (facts.st_uid != ::geteuid()) {
      return {Code::kPermissionDenied, reasons::kNotOwner,
              partial_.name + " beside " + label_ + " belongs to uid " +
                  std::to_string(facts.st_uid) + ", so its copy cannot be continued",
              "let its owner continue, have it removed, or leave out --resume"};
    }
    if (facts.st_nlink > 1) return Refused("a file with another name, too");
    return OkStatus();
  }

  // Whether the caller has it now; else it was renamed or removed meanwhile.
  Result<bool> Try() {
    NamedFile found;
    found.folder = os::UniqueFd::DuplicateOf(target_.folder.get());
    if (!found.folder) return Failed(errno, "opening the folder of");
    found.name = partial_.name;
    constexpr int kMake = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
    const os::UniqueFd made(::openat(found.folder.get(), found.name.c_str(), kMake, mode_));
    if (!made && errno != EEXIST) return Failed(errno, "writing");
    found.file = os::UniqueFd(
        ::openat(found.folder.get(), found.name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!found.file) {
      if (errno == ENOENT) return false;
      return Failed(errno, "looking at");
    }
    ONECOPY_RETURN_IF_ERROR(Check(found));
    partial_.claim = found.Reopen(O_RDWR);
    if (!partial_.claim) return Gone("opening");
    if (const int error = TryLock(partial_.claim.get(), kClaimLock); error != 0) {
      if (error == EAGAIN) return InUse("another client copies to it");
      // Where files have no locks, every client fails here, so no client uses this file.
      if (made && os::CheckNames(found.folder.get(), found.name, made.get()) == 0) {
        ::unlinkat(found.folder.get(), found.name.c_str(), 0);
      }
      return LockFailed(error);
    }
    // Nobody else renames or removes it from now on; somebody may have.
    partial_.file = found.Reopen(O_RDWR);
    if (!partial_.file) return Gone("opening");
    return true;
  }

  Result<bool> Gone(const std::string& what) const {
    if (errno == ENOENT || errno == ESTALE) return false;
    return Failed(errno, what);
  }

  Status AwaitDaemon() const {
    const auto last = std::chrono::steady_clock::now() + kDaemonsTime;
    for (;;) {
      const int error = TryLock(partial_.file.get(), kFileLock);
      if (error == 0) return OkStatus();
      if (error != EAGAIN) return LockFailed(error);
      ONECOPY_RETURN_IF_ERROR(waiter_.Check());
      if (std::chrono::steady_clock::now() >= last) {
        return InUse("the daemon still writes to it for a client that has ended");
      }
      std::this_thread::sleep_for(kLockPoll);
    }
  }

  const NamedFile& target_;
  const std::string label_;
  const mode_t mode_;
  const Waiter& waiter_;
  PartialFile partial_;
};

}  // namespace

Result<PartialFile> OpenPartialFile(const NamedFile& target, const std::string& label, mode_t mode,
                                    const Waiter& waiter) {
  return Opening(target, label, mode, waiter).Run();
}

}  // namespace onecopy::client
