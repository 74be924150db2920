#include "transport/os/sockets/socket_owner.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>

#include "onecopy/reasons.h"
#include "transport/os/base/error.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::os {
namespace {

struct End {
  sa_family_t family = AF_UNSPEC;
  std::array<std::byte, 16> address{};  // the first 4 for IPv4
  in_port_t port = 0;                   // in network order, like the address
  uint32_t scope = 0;
};

// IPv4 written as IPv6 becomes IPv4: that is how the kernel files it.
End EndOf(const sockaddr_storage& storage) {
  End end;
  if (storage.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(storage);
    end.family = AF_INET;
    end.port = in.sin_port;
    std::memcpy(end.address.data(), &in.sin_addr, sizeof in.sin_addr);
    return end;
  }
  const auto& in = reinterpret_cast<const sockaddr_in6&>(storage);
  end.port = in.sin6_port;
  if (IN6_IS_ADDR_V4MAPPED(&in.sin6_addr)) {
    end.family = AF_INET;
    std::memcpy(end.address.data(), &in.sin6_addr.s6_addr[12], 4);
  } else {
    end.family = AF_INET6;
    end.scope = in.sin6_scope_id;
    std::memcpy(end.address.data(), &in.sin6_addr, sizeof in.sin6_addr);
  }
  return end;
}

struct InetQuery {
  nlmsghdr header;
  inet_diag_req_v2 request;
};

// The question for the socket whose own end is `own` and whose far end is `far`.
InetQuery QueryFor(const End& own, const End& far) {
  InetQuery query{};
  query.header.nlmsg_len = sizeof query;
  query.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  query.header.nlmsg_flags = NLM_F_REQUEST;
  query.request.sdiag_family = static_cast<uint8_t>(own.family);
  query.request.sdiag_protocol = IPPROTO_TCP;
  query.request.idiag_states = ~0U;
  query.request.id.idiag_sport = own.port;
  query.request.id.idiag_dport = far.port;
  std::memcpy(query.request.id.idiag_src, own.address.data(), own.address.size());
  std::memcpy(query.request.id.idiag_dst, far.address.data(), far.address.size());
  query.request.id.idiag_if = own.scope;
  query.request.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  query.request.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return query;
}

// The kernel answers such a question while it is being sent. No value: no such socket.
Result<std::optional<inet_diag_msg>> Ask(const InetQuery& query) {
  const UniqueFd netlink(
      ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
  if (!netlink) return ErrnoStatus(errno, "opening the kernel's socket tables");
  if (::send(netlink.get(), &query, sizeof query, 0) != static_cast<ssize_t>(sizeof query)) {
    return ErrnoStatus(errno, "asking the kernel's socket tables");
  }
  alignas(nlmsghdr) std::array<std::byte, 4096> reply;
  const ssize_t got = ::recv(netlink.get(), reply.data(), reply.size(), 0);
  if (got < 0) return ErrnoStatus(errno, "reading the kernel's socket tables");
  const auto* header = reinterpret_cast<const nlmsghdr*>(reply.data());
  const auto bytes = static_cast<size_t>(got);
  if (header->nlmsg_type == NLMSG_ERROR && bytes >= NLMSG_LENGTH(sizeof(nlmsgerr))) {
    nlmsgerr failure{};
    std::memcpy(&failure, NLMSG_DATA(header), sizeof failure);
    if (failure.error == -ENOENT) return std::optional<inet_diag_msg>();
    return ErrnoStatus(-failure.error, "looking a socket up in the kernel's tables");
  }
  if (header->nlmsg_type != SOCK_DIAG_BY_FAMILY || bytes < NLMSG_LENGTH(sizeof(inet_diag_msg))) {
    return Status(Code::kInternal, reasons::kIo,
                  "the kernel's answer about its sockets is malformed");
  }
  inet_diag_msg found{};
  std::memcpy(&found, NLMSG_DATA(header), sizeof found);
  return std::optional(found);
}

bool IsEstablished(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
         info.tcpi_state == TCP_ESTABLISHED;
}

}  // namespace

Result<std::optional<FarSocket>> FindFarSocket(int fd) {
  sockaddr_storage near{};
  sockaddr_storage far{};
  socklen_t near_size = sizeof near;
  socklen_t far_size = sizeof far;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&near), &near_size) != 0 ||
      ::getpeername(fd, reinterpret_cast<sockaddr*>(&far), &far_size) != 0) {
    return ErrnoStatus(errno, "asking for a connection's addresses");
  }
  ONECOPY_ASSIGN_OR_RETURN(const std::optional<inet_diag_msg> found,
                           Ask(QueryFor(EndOf(far), EndOf(near))));
  // Our end must still be established after the look-up: else its far end may be gone, and what was
  // found be a later connection that uses the same ports.
  const bool ending = !IsEstablished(fd);
  const Status gone(Code::kUnavailable, reasons::kLinkDown, "the connection is ending");
  if (ending) return gone;
  // A listener is what the kernel finds where it has no connection: another socket with that port.
  if (!found || found->idiag_state == TCP_LISTEN) return std::optional<FarSocket>();
  // A socket without an inode is one that its process has closed; the kernel shows root as its
  // owner.
  if (found->idiag_state != TCP_ESTABLISHED || found->idiag_inode == 0) return gone;
  return std::optional(
      FarSocket{found->idiag_uid, found->idiag_inode, ntohs(found->id.idiag_sport)});
}

namespace {

struct UnixQuery {
  nlmsghdr header;
  unix_diag_req request;
};

// The inode of the far socket.
std::optional<uint32_t> FarInode(int fd) {
  struct stat facts {};
  const UniqueFd netlink(
      ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
  if (!netlink || ::fstat(fd, &facts) != 0) return std::nullopt;
  UnixQuery query{};
  query.header.nlmsg_len = sizeof query;
  query.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  query.header.nlmsg_flags = NLM_F_REQUEST;
  query.request.sdiag_family = AF_UNIX;
  query.request.udiag_states = ~0U;
  query.request.udiag_ino = static_cast<uint32_t>(facts.st_ino);
  query.request.udiag_show = UDIAG_SHOW_PEER;
  query.request.udiag_cookie[0] = query.request.udiag_cookie[1] = ~0U;
  if (::send(netlink.get(), &query, sizeof query, 0) != static_cast<ssize_t>(sizeof query)) {
    return std::nullopt;
  }
  alignas(nlmsghdr) std::array<std::byte, 4096> reply;
  const ssize_t got = ::recv(netlink.get(), reply.data(), reply.size(), 0);
  const auto* header = reinterpret_cast<const nlmsghdr*>(reply.data());
  constexpr size_t kFixed = NLMSG_LENGTH(sizeof(unix_diag_msg));
  if (got < static_cast<ssize_t>(kFixed) || header->nlmsg_type != SOCK_DIAG_BY_FAMILY) {
    return std::nullopt;
  }
  auto left = static_cast<unsigned>(got) - static_cast<unsigned>(NLMSG_ALIGN(kFixed));
  auto* attribute = reinterpret_cast<rtattr*>(reply.data() + NLMSG_ALIGN(kFixed));
  for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
    if (attribute->rta_type != UNIX_DIAG_PEER) continue;
    uint32_t inode = 0;
    std::memcpy(&inode, RTA_DATA(attribute), sizeof inode);
    return inode;
  }
  return std::nullopt;
}

}  // namespace

std::optional<bool> HoldsFarEnd(int32_t pid, int fd) {
  const std::optional<uint32_t> inode = FarInode(fd);
  if (!inode) return std::nullopt;
  const std::string wanted = "socket:[" + std::to_string(*inode) + "]";
  std::error_code error;
  std::filesystem::directory_iterator open("/proc/" + std::to_string(pid) + "/fd", error);
  bool any = false;
  for (; !error && open != std::filesystem::directory_iterator(); open.increment(error)) {
    std::error_code gone;  // one that is closed meanwhile
    const std::filesystem::path target = std::filesystem::read_symlink(open->path(), gone);
    if (gone) continue;
    any = true;
    if (target == wanted) return true;
  }
  // A process that shows nothing is not one that has nothing open.
  if (error || !any) return std::nullopt;
  return false;
}

}  // namespace onecopy::os
