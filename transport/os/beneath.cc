#include "transport/os/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "onecopy/reasons.h"
#include "transport/os/descriptor_kind.h"
#include "transport/os/error.h"

namespace onecopy::os {
namespace {

constexpr int kTries = 100;  // of a look that something was renamed under

UniqueFd LookBeneath(int root, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  for (int i = 0; i < kTries; ++i) {
    const long fd = ::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how);
    if (fd >= 0 || errno != EAGAIN) return UniqueFd(static_cast<int>(fd));
  }
  return {};
}

Status Failure(int error, const std::string& name) {
  if (error == ELOOP || error == EXDEV) {
    return {Code::kPermissionDenied, reasons::kAccessDenied,
            name + " leads through a symbolic link, which is not followed", "name the file itself"};
  }
  if (error == ENOSYS) {
    return {Code::kFailedPrecondition, reasons::kNotApplicable,
            "the kernel cannot open files beneath a folder alone (openat2)",
            "run Linux 5.6 or later, and let onecopyd call openat2"};
  }
  return ErrnoStatus(error == ENOTDIR ? ENOENT : error, "opening " + name);
}

}  // namespace

Result<FileBeneath> OpenBeneath(const std::string& root, const std::string& path,
                                const std::string& name, bool direct) {
  const UniqueFd folder(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return Failure(errno, name);
  const UniqueFd found = LookBeneath(folder.get(), path);
  if (!found) return Failure(errno, name);
  struct stat facts {};
  if (::fstat(found.get(), &facts) != 0) return Failure(errno, name);
  if (S_ISLNK(facts.st_mode)) return Failure(ELOOP, name);
  if (!S_ISREG(facts.st_mode)) {
    return Status(Code::kInvalidArgument, reasons::kBadHandle,
                  name + " is no regular file: it is " + DescribeDescriptor(found.get()),
                  "name a regular file");
  }
  // That very file, whatever its name stands for by now: so no FIFO or device, and no O_NONBLOCK,
  // which rings of io_uring would take at its word.
  const std::string self = "/proc/self/fd/" + std::to_string(found.get());
  constexpr int kFlags = O_RDONLY | O_NOCTTY | O_CLOEXEC;
  FileBeneath opened;
  opened.plain = UniqueFd(::open(self.c_str(), kFlags));
  if (!opened.plain) return Failure(errno, name);
  if (direct) opened.direct = UniqueFd(::open(self.c_str(), kFlags | O_DIRECT));
  return opened;
}

}  // namespace onecopy::os
