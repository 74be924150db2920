#include "daemon/handover/lease.h"

#include <sys/socket.h>

#include <cerrno>

#include "proto/codec/status_codec.h"
#include "transport/os/base/error.h"
#include "transport/os/sockets/packet.h"

namespace onecopy::handover {

Result<std::pair<Lease, os::UniqueFd>> Lease::Make(os::EventLoop& loop,
                                                   std::function<void()> released) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
    return os::ErrnoStatus(errno, "making the sockets of a mapping");
  }
  os::UniqueFd here(pair[0]);
  os::UniqueFd there(pair[1]);
  // Before another process has the other end.
  if (::shutdown(here.get(), SHUT_RD) != 0) {
    return os::ErrnoStatus(errno, "closing a mapping's socket for what is sent to it");
  }
  const int fd = here.get();
  Lease lease(loop, std::move(here));
  // No event is asked for: the far end's closing is always told.
  ONECOPY_RETURN_IF_ERROR(
      loop.Watch(fd, 0, [released = std::move(released)](uint32_t) { released(); }));
  return std::pair(std::move(lease), std::move(there));
}

Lease::Lease(Lease&& other) noexcept : loop_(other.loop_), socket_(std::move(other.socket_)) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  std::swap(loop_, other.loop_);
  std::swap(socket_, other.socket_);
  return *this;
}

void Lease::Reset() {
  if (!socket_) return;
  loop_->Unwatch(socket_.get());
  socket_.Reset();
}

void Lease::Revoke(const Status& why) {
  // One packet fits into any socket; to a client that has gone nothing is to be told.
  (void)os::SendPacket(socket_.get(), ToProto(why).SerializeAsString());
}

}  // namespace onecopy::handover
