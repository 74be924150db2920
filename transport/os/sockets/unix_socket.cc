#include "transport/os/sockets/unix_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"
#include "transport/os/sockets/socket_owner.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

namespace onecopy::os {
namespace {

// The path must have passed CheckSocketPath.
sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// The sockets of daemons that have ended may be replaced.
Status CheckReplaceable(const std::string& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0) {
    return errno == ENOENT ? OkStatus() : ErrnoStatus(errno, "looking at " + path);
  }
  if (!S_ISSOCK(facts.st_mode)) {
    return {Code::kAlreadyExists, reasons::kNameTaken, path + " exists and is not a socket",
            "move it away, or choose another folder"};
  }
  return OkStatus();
}

Status RemoveStaleSocket(const std::string& path) {
  ONECOPY_RETURN_IF_ERROR(CheckReplaceable(path));
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, "removing the stale socket " + path);
  }
  return OkStatus();
}

Status OwnerDied(int32_t pid) {
  return {Code::kAborted, reasons::kOwnerDied,
          "process " + std::to_string(pid) + " has connected and ended"};
}

template <typename Use>
Result<UniqueFd> OpenAbstract(const std::string& name, int type, const std::string& what,
                              const Use& use) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() > sizeof address.sun_path - 1) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument, "a socket cannot have that name");
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return ErrnoStatus(errno, "socket");
  if (!use(fd.get(), reinterpret_cast<const sockaddr*>(&address), size)) {
    return ErrnoStatus(errno, what);
  }
  return fd;
}

}  // namespace

Status CheckSocketPath(const std::string& path) {
  constexpr size_t kMax = sizeof(sockaddr_un::sun_path) - 1;
  if (path.empty() || path.find('\0') != std::string::npos) {
    return {Code::kInvalidArgument, reasons::kBadArgument, "\"" + path + "\" is not a path"};
  }
  if (path.size() > kMax) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "the path of a socket can have " + std::to_string(kMax) + " bytes; " + path + " has " +
                std::to_string(path.size()),
            "choose a folder with a shorter path"};
  }
  return OkStatus();
}

Result<UniqueFd> ListenUnix(const std::string& path, int type, mode_t mode, int backlog) {
  ONECOPY_RETURN_IF_ERROR(CheckSocketPath(path));
  ONECOPY_RETURN_IF_ERROR(CheckReplaceable(path));
  // Clients that wait for the next daemon must find either the old socket, at which no program
  // listens, or the new one with its mode: none that refuses them.
  std::string made = path;
  made.back() = '~';  // no longer than the path
  ONECOPY_RETURN_IF_ERROR(RemoveStaleSocket(made));
  UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return ErrnoStatus(errno, "socket");
  const sockaddr_un address = AddressOf(made);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(made.c_str(), mode) != 0 || ::listen(fd.get(), backlog) != 0 ||
      ::rename(made.c_str(), path.c_str()) != 0) {
    const Status failed = ErrnoStatus(errno, "listening at " + path);
    ::unlink(made.c_str());
    return failed;
  }
  return fd;
}

Result<UniqueFd> ConnectUnix(const std::string& path, int type) {
  ONECOPY_RETURN_IF_ERROR(CheckSocketPath(path));
  UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return ErrnoStatus(errno, "socket");
  const sockaddr_un address = AddressOf(path);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return ErrnoStatus(errno, "connecting to " + path);
  }
  return fd;
}

Result<UniqueFd> ListenAbstract(const std::string& name, int type, int backlog) {
  return OpenAbstract(name, type, "listening at @" + name,
                      [backlog](int fd, const sockaddr* address, socklen_t size) {
                        return ::bind(fd, address, size) == 0 && ::listen(fd, backlog) == 0;
                      });
}

Result<UniqueFd> ConnectAbstract(const std::string& name, int type) {
  return OpenAbstract(name, type, "connecting to @" + name,
                      [](int fd, const sockaddr* address, socklen_t size) {
                        return ::connect(fd, address, size) == 0;
                      });
}

bool RefuseDescriptors(int fd) {
  const int off = 0;
  return ::setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof off) == 0;
}

PlainBytes ReceivePlain(int fd, char* into, size_t room) {
  iovec bytes{into, room};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  // Looking on does not open what came along, and so closes nothing.
  const ssize_t seen = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_PEEK);
  if (seen <= 0) return {seen, false};
  if ((message.msg_flags & MSG_CTRUNC) != 0) return {0, true};
  // No more than was seen: what follows may have some.
  return {::recv(fd, into, static_cast<size_t>(seen), MSG_DONTWAIT), false};
}

Result<PeerProcess> UnixPeer(int fd) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return ErrnoStatus(errno, "asking the kernel for the connecting process");
  }
  return PeerProcess{credentials.pid, credentials.uid, credentials.gid};
}

Result<UniqueFd> UnixPeerPidfd(int fd, const PeerProcess& peer) {
  int pidfd = -1;
  socklen_t size = sizeof pidfd;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0) return UniqueFd(pidfd);
  if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
    return ErrnoStatus(errno, "opening a descriptor of process " + std::to_string(peer.pid));
  }
  if (errno != ENOPROTOOPT) return OwnerDied(peer.pid);  // the kernel knows the option
  if (peer.pid == 0) return UniqueFd();
  return PidfdByNumber(fd, peer.pid);
}

Result<UniqueFd> PidfdByNumber(int fd, int32_t pid) {
  UniqueFd opened(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!opened && errno == ESRCH) return OwnerDied(pid);
  if (!opened) return ErrnoStatus(errno, "opening a descriptor of process " + std::to_string(pid));
  // The number may be another process's by now: one that has nothing to do with the socket.
  if (HoldsFarEnd(pid, fd) == false) return OwnerDied(pid);
  return opened;
}

bool HasEnded(const UniqueFd& pidfd) {
  pollfd poll{pidfd.get(), POLLIN, 0};
  return ::poll(&poll, 1, 0) > 0;
}

}  // namespace onecopy::os
