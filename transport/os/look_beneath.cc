#include "transport/os/look_beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "onecopy/reasons.h"
#include "transport/os/error.h"

namespace onecopy::os {
namespace {

constexpr int kTries = 100;  // of a look that something was renamed under
constexpr int kLook = O_PATH | O_CLOEXEC | O_NOFOLLOW;

// The same without openat2: no component is a link, so that none leads anywhere.
UniqueFd WalkBeneath(int folder, const std::string& path) {
  UniqueFd at;
  size_t begin = 0;
  for (;;) {
    const size_t slash = path.find('/', begin);
    const std::string part = path.substr(begin, slash - begin);
    if (part.empty() || part == "." || part == "..") {
      errno = EXDEV;
      return {};
    }
    UniqueFd next(::openat(at ? at.get() : folder, part.c_str(), kLook));
    if (!next || slash == std::string::npos) return next;
    struct stat facts {};
    if (::fstat(next.get(), &facts) != 0) return {};
    if (!S_ISDIR(facts.st_mode)) {
      errno = S_ISLNK(facts.st_mode) ? ELOOP : ENOTDIR;
      return {};
    }
    at = std::move(next);
    begin = slash + 1;
  }
}

}  // namespace

UniqueFd LookBeneath(int folder, const std::string& path) {
  open_how how{};
  how.flags = kLook;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  for (int i = 0; i < kTries; ++i) {
    const long fd = ::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how);
    if (fd >= 0) return UniqueFd(static_cast<int>(fd));
    if (errno == ENOSYS || errno == EPERM) return WalkBeneath(folder, path);
    if (errno != EAGAIN) return {};
  }
  return {};
}

Status FailureBeneath(int error, const std::string& doing, const std::string& name,
                      const std::string& remedy) {
  if (error == ELOOP || error == EXDEV) {
    return {Code::kPermissionDenied, reasons::kAccessDenied,
            name + " leads through a symbolic link, which is not followed", "name the file itself"};
  }
  return ErrnoStatus(error == ENOTDIR ? ENOENT : error, doing + " " + name, remedy);
}

}  // namespace onecopy::os
