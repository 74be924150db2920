#include "transport/os/sockets/socket_mark.h"

#include <sys/socket.h>

#include <string>

#include "transport/os/sockets/host_port.h"
#include "transport/os/sockets/unix_socket.h"

namespace onecopy::os {
namespace {

// As many may ask at once; more look for themselves.
constexpr int kBacklog = 256;

// By the port alone: a socket has no address before it connects, and few share a port.
std::string NameFor(uint16_t port) { return "onecopy/holder/tcp/" + std::to_string(port); }

}  // namespace

Result<UniqueFd> MarkSocket(int fd) {
  ONECOPY_ASSIGN_OR_RETURN(const HostPort own, LocalAddress(fd));
  return ListenAbstract(NameFor(own.port), SOCK_SEQPACKET, kBacklog);
}

std::optional<int32_t> MarkedHolder(uint16_t port) {
  const Result<UniqueFd> mark = ConnectAbstract(NameFor(port), SOCK_SEQPACKET);
  if (!mark.ok()) return std::nullopt;
  const Result<PeerProcess> holder = UnixPeer(mark->get());
  if (!holder.ok() || holder->pid <= 0) return std::nullopt;
  return holder->pid;
}

}  // namespace onecopy::os
