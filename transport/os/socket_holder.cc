#include "transport/os/socket_holder.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>

#include "transport/os/unique_fd.h"

namespace onecopy::os {
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
