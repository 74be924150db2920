#include "daemon/rpc/identity/plain_peer.h"

#include <unistd.h>

#include <optional>

#include "onecopy/reasons.h"
#include "transport/os/machine/namespaces.h"
#include "transport/os/sockets/host_port.h"
#include "transport/os/sockets/socket_mark.h"
#include "transport/os/sockets/socket_owner.h"

namespace onecopy::rpc {
namespace {

Status Denied(std::string message, std::string remedy) {
  return {Code::kPermissionDenied, reasons::kAccessDenied, std::move(message), std::move(remedy)};
}

}  // namespace

Status CheckPlainPeer(int fd, const std::string& far_host, const std::string& has) {
  const Result<std::optional<os::FarSocket>> found = os::FindFarSocket(fd);
  if (!found.ok()) {
    return {found.status().code(), found.status().reason(),
            "cannot identify the process that " + has + " without TLS: " + found.status().message(),
            "allow this daemon to open AF_NETLINK sockets, or configure [tls]"};
  }
  if (!found->has_value() && !os::IsLoopback(far_host)) return OkStatus();  // another machine
  const uint32_t own = ::geteuid();
  if (!found->has_value() || ((*found)->uid != own && (*found)->uid != 0)) {
    return Denied((found->has_value() ? "uid " + std::to_string((*found)->uid)
                                      : "a process of an unknown user") +
                      " of this machine " + has + "; without TLS only root and uid " +
                      std::to_string(own) + " can be peers",
                  "run the daemons of one machine as one user, or configure [tls]");
  }
  const std::string who = "a process of uid " + std::to_string((*found)->uid);
  const std::optional<os::SocketHolder> holder =
      os::FindSocketHolder((*found)->inode, os::MarkedHolder((*found)->port));
  if (!holder) {
    return Denied(who + " " + has + ", and this daemon cannot see whether it is in a container",
                  "run the daemons of one machine as one user, or configure [tls]");
  }
  const os::ProcessNamespaces& in = holder->namespaces;
  if (in.user.own && in.pid.own) return OkStatus();
  return Denied(who + " in other namespaces than this daemon's " +
                    (in.cgroup.empty() ? "" : "(control group " + in.cgroup + ") ") + has,
                "configure [tls]: without it, daemons in containers cannot be peers over loopback");
}

}  // namespace onecopy::rpc
