#include "transport/os/sockets/packet.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

namespace onecopy::os {
namespace {

std::vector<UniqueFd> TakeFds(msghdr& message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

Status Send(int fd, const msghdr& message) {
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return OkStatus();
  if (errno == EAGAIN) {
    return {Code::kResourceExhausted, reasons::kQuota, "the far end does not read its messages"};
  }
  return ErrnoStatus(errno, "sending a packet");
}

}  // namespace

Result<std::optional<Packet>> ReceivePacket(int fd, size_t most_bytes) {
  Packet packet;
  packet.bytes.resize(most_bytes);
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMaxPassedFds * sizeof(int))> control;
  iovec room{packet.bytes.data(), packet.bytes.size()};
  msghdr message{};
  message.msg_iov = &room;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  do {
    got = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    if (errno == EAGAIN) return std::optional<Packet>();
    return ErrnoStatus(errno, "receiving a packet");
  }
  packet.fds = TakeFds(message);
  packet.bytes.resize(static_cast<size_t>(got));
  packet.bytes_cut = (message.msg_flags & MSG_TRUNC) != 0;
  packet.fds_cut = (message.msg_flags & MSG_CTRUNC) != 0;
  packet.end = got == 0;
  return std::optional(std::move(packet));
}

Status SendPacket(int fd, std::string_view bytes) {
  iovec data{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  return Send(fd, message);
}

Status SendPacket(int fd, std::string_view bytes, std::span<const int> passed_fds) {
  if (passed_fds.size() > kMaxPassedFds) {
    return {Code::kInvalidArgument, reasons::kBadArgument, "too many descriptors for one packet"};
  }
  if (passed_fds.empty()) return SendPacket(fd, bytes);
  iovec data{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMaxPassedFds * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(passed_fds.size_bytes());
  cmsghdr* part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(passed_fds.size_bytes());
  std::memcpy(CMSG_DATA(part), passed_fds.data(), passed_fds.size_bytes());
  return Send(fd, message);
}

}  // namespace onecopy::os
