#include "transport/os/machine/shown_namespaces.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/machine/machine.h"

namespace onecopy::os {
namespace {

// Linux 6.11; older headers lack it.
constexpr unsigned long kTgidInPidNamespace = _IOR(NSIO, 0x9, int);
// As deep as user namespaces may be nested.
constexpr int kMostNested = 33;

std::optional<NamespaceIdentity> OwnIdentity(const char* kind) {
  const UniqueFd own(::open((std::string("/proc/self/ns/") + kind).c_str(), O_RDONLY | O_CLOEXEC));
  return IdentityOf(own.get());
}

Status Wrong(const std::string& why) {
  return {Code::kInvalidArgument, reasons::kBadHandle,
          "the client shows a namespace that is not its own: " + why,
          "pass descriptors of /proc/self/ns/user and /proc/self/ns/pid"};
}

// By its name, which asks no file system anything: what a client passes may hang. A file's begins
// with a slash.
Status CheckType(int fd, const char* kind) {
  std::error_code error;
  const std::filesystem::path name =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), error);
  if (!error && name.string().starts_with(std::string(kind) + ":[")) return OkStatus();
  return Wrong(std::string("a descriptor does not name a ") + kind + " namespace");
}

Result<NamespaceView> ViewOf(int fd, const char* kind) {
  const std::optional<NamespaceIdentity> identity = IdentityOf(fd);
  if (!identity || identity == OwnIdentity(kind)) return Wrong("it is the daemon's");
  NamespaceView view;
  view.number = identity->number;
  // One of its own: whatever the client's is, it is closed elsewhere.
  view.held = std::make_shared<UniqueFd>(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!*view.held) {
    return Status(Code::kResourceExhausted, reasons::kNoMemory,
                  "no descriptor is left to hold a client's namespace");
  }
  return view;
}

// Whether a user namespace is this one, or one around it.
bool IsWithin(int user_fd, const NamespaceIdentity& wanted) {
  UniqueFd parent;
  int at = user_fd;
  for (int i = 0; i < kMostNested; ++i) {
    if (IdentityOf(at) == wanted) return true;
    UniqueFd next(::ioctl(at, NS_GET_PARENT));
    if (!next) return false;
    parent = std::move(next);
    at = parent.get();
  }
  return false;
}

// `user_fd`: of the client's user namespace; -1: this process's own.
Status CheckOwner(int pid_fd, int user_fd) {
  const UniqueFd owner(::ioctl(pid_fd, NS_GET_USERNS));
  const std::optional<NamespaceIdentity> identity = IdentityOf(owner.get());
  if (!identity) return Wrong("its PID namespace is not visible from here");
  const bool fits = user_fd < 0 ? identity == OwnIdentity("user") : IsWithin(user_fd, *identity);
  return fits ? OkStatus() : Wrong("its PID namespace belongs to another user namespace");
}

Status CheckInside(int pid_fd, int32_t pid) {
  if (pid <= 0) return OkStatus();
  const int inside = ::ioctl(pid_fd, kTgidInPidNamespace, static_cast<unsigned long>(pid));
  if (inside > 0 && inside == InnermostPid(pid).value_or(inside)) return OkStatus();
  // A kernel that does not tell.
  if (inside < 0 && (errno == ENOTTY || errno == EINVAL)) return OkStatus();
  return Wrong("it is in no such PID namespace");
}

}  // namespace

Result<ProcessNamespaces> WithShown(ProcessNamespaces seen, int32_t pid, int user_fd, int pid_fd) {
  ONECOPY_RETURN_IF_ERROR(CheckType(user_fd, "user"));
  ONECOPY_RETURN_IF_ERROR(CheckType(pid_fd, "pid"));
  if (!seen.user.own && !seen.user.number) {
    ONECOPY_ASSIGN_OR_RETURN(seen.user, ViewOf(user_fd, "user"));
  }
  if (!seen.pid.own && !seen.pid.number) {
    const int of_user = seen.user.own ? -1 : seen.user.held->get();
    ONECOPY_RETURN_IF_ERROR(CheckOwner(pid_fd, of_user));
    ONECOPY_RETURN_IF_ERROR(CheckInside(pid_fd, pid));
    ONECOPY_ASSIGN_OR_RETURN(seen.pid, ViewOf(pid_fd, "pid"));
  }
  return seen;
}

}  // namespace onecopy::os
