#include "bench/ceiling/loopback.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "transport/os/base/error.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy::bench {
namespace {

constexpr int kConnectLimitMs = 10'000;

Status WaitFor(int fd, short events, const char* what) {
  pollfd wanted = {fd, events, 0};
  int ready = 0;
  while ((ready = ::poll(&wanted, 1, kConnectLimitMs)) < 0 && errno == EINTR) {
  }
  return ready == 1 ? OkStatus() : os::ErrnoStatus(ready == 0 ? ETIMEDOUT : errno, what);
}

Status SetUp(int fd) {
  const int on = 1;
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0 ||
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
    return os::ErrnoStatus(errno, "setting up a socket");
  }
  return OkStatus();
}

Result<SocketPair> ConnectOne(int listener, const os::HostPort& address) {
  SocketPair pair;
  ONECOPY_ASSIGN_OR_RETURN(pair.sender, os::ConnectTcp(address));
  ONECOPY_RETURN_IF_ERROR(WaitFor(listener, POLLIN, "accepting a connection to this process"));
  pair.receiver = os::UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!pair.receiver) return os::ErrnoStatus(errno, "accepting a connection to this process");
  ONECOPY_RETURN_IF_ERROR(WaitFor(pair.sender.get(), POLLOUT, "connecting to this process"));
  ONECOPY_RETURN_IF_ERROR(os::ConnectError(pair.sender.get()));
  ONECOPY_RETURN_IF_ERROR(SetUp(pair.sender.get()));
  ONECOPY_RETURN_IF_ERROR(SetUp(pair.receiver.get()));
  return pair;
}

}  // namespace

Result<std::vector<SocketPair>> ConnectOverLoopback(unsigned pairs) {
  ONECOPY_ASSIGN_OR_RETURN(const os::UniqueFd listener,
                           os::ListenTcp({"127.0.0.1", 0}, static_cast<int>(pairs)));
  ONECOPY_ASSIGN_OR_RETURN(const os::HostPort address, os::LocalAddress(listener.get()));
  std::vector<SocketPair> made;
  for (unsigned i = 0; i < pairs; ++i) {
    ONECOPY_ASSIGN_OR_RETURN(SocketPair pair, ConnectOne(listener.get(), address));
    made.push_back(std::move(pair));
  }
  return made;
}

}  // namespace onecopy::bench
