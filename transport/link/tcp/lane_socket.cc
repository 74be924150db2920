#include "transport/link/tcp/lane_socket.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

#include "transport/link/tcp/frame.h"
#include "transport/tls/kernel_tls.h"

namespace onecopy::tcp {

ssize_t SendVector(int fd, iovec* vector, size_t count, int flags) {
  msghdr message{};
  message.msg_iov = vector;
  message.msg_iovlen = count;
  return ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL | flags);
}

Status LaneSocket::Encrypt(const tls::SessionKeys& keys, bool by_kernel, tls::Chain presented) {
  if (by_kernel) {
    ONECOPY_RETURN_IF_ERROR(tls::UseKernelTls(fd(), keys));
  } else {
    // Headers share records; a body has its own.
    ONECOPY_ASSIGN_OR_RETURN(stream_,
                             tls::Stream::Make(fd(), keys, {.shared_bytes = kHeaderBytes}));
  }
  cipher_ = tls::CipherName(keys.sending.cipher);
  presented_ = std::move(presented);
  return OkStatus();
}

ssize_t LaneSocket::Receive(iovec* vector, size_t count) {
  if (stream_ != nullptr) return stream_->Receive(vector, count);
  msghdr message{};
  message.msg_iov = vector;
  message.msg_iovlen = count;
  return ::recvmsg(fd_.get(), &message, MSG_DONTWAIT);
}

ssize_t LaneSocket::Send(iovec* vector, size_t count, bool more) {
  if (stream_ != nullptr) return stream_->Send(vector, count, more);
  return SendVector(fd_.get(), vector, count, more ? MSG_MORE : 0);
}

void LaneSocket::AcknowledgeNow() {
  const int on = 1;
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

void LaneSocket::Close(bool drop_unsent) {
  if (drop_unsent) {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  stream_.reset();
  fd_.Reset();
}

std::chrono::microseconds LaneSocket::round_trip() const {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (!fd_ || ::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  return std::chrono::microseconds(info.tcpi_rtt);
}

LaneSocket::Counters LaneSocket::ReadCounters() const {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (!fd_ || ::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  return {info.tcpi_bytes_received, info.tcpi_bytes_acked};
}

}  // namespace onecopy::tcp
