#include "daemon/handover/client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "onecopy/reasons.h"
#include "onecopy/v1/handover.pb.h"
#include "proto/codec/status_codec.h"
#include "transport/os/base/error.h"
#include "transport/os/machine/machine.h"
#include "transport/os/sockets/packet.h"
#include "transport/os/sockets/unix_socket.h"

namespace onecopy::handover {
namespace {

constexpr size_t kMaxReplyBytes = 4096;

Status Unusable(std::string why) {
  return {Code::kUnavailable, reasons::kLinkDown,
          "cannot fetch the other daemon's memory: " + std::move(why),
          "run both daemons in one network namespace, as one user"};
}

Status AwaitReply(int socket, std::chrono::milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return Unusable("it does not answer");
    pollfd wait{socket, POLLIN, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(left.count()));
    if (ready > 0) return OkStatus();
    if (ready < 0 && errno != EINTR) return os::ErrnoStatus(errno, "waiting for another daemon");
  }
}

}  // namespace

Result<Fetched> Fetch(const Address& address, std::chrono::milliseconds patience) {
  Result<os::UniqueFd> socket = os::ConnectAbstract(address.name, SOCK_SEQPACKET);
  if (socket.status().reason() == reasons::kOpenFiles) return socket.status();
  if (!socket.ok()) return Unusable(socket.status().message());
  ONECOPY_ASSIGN_OR_RETURN(const os::PeerProcess peer, os::UnixPeer(socket->get()));
  if (peer.uid != ::geteuid()) {
    return Status(Code::kPermissionDenied, reasons::kAccessDenied,
                  "the socket of the other daemon is served by uid " + std::to_string(peer.uid) +
                      ", and this daemon runs as uid " + std::to_string(::geteuid()),
                  "run both daemons as one user");
  }
  v1::HandoverRequest request;
  request.set_token(address.token);
  ONECOPY_RETURN_IF_ERROR(os::SendPacket(socket->get(), request.SerializeAsString()));
  ONECOPY_RETURN_IF_ERROR(AwaitReply(socket->get(), patience));
  Result<std::optional<os::Packet>> packet = os::ReceivePacket(socket->get(), kMaxReplyBytes);
  if (!packet.ok()) return Unusable(packet.status().message());
  if (!*packet || (*packet)->end) return Unusable("it closed the connection");
  if ((*packet)->fds_cut) {
    return os::ErrnoStatus(EMFILE, "this daemon could not receive the other daemon's descriptor");
  }
  v1::HandoverReply reply;
  if ((*packet)->bytes_cut || (*packet)->fds.size() > 1 ||
      !reply.ParseFromString((*packet)->bytes)) {
    return Unusable("its answer is not in this protocol");
  }
  if (!reply.has_memory()) {
    const Status error = FromProto(reply.error());
    return error.ok() ? Unusable("its answer has no memory and no error") : error;
  }
  Fetched fetched;
  if (!(*packet)->fds.empty()) fetched.fd = std::move((*packet)->fds.front());
  fetched.memory.form = reply.memory().form();
  fetched.memory.device = reply.memory().device();
  fetched.memory.bytes = reply.memory().bytes();
  fetched.memory.offset = reply.memory().offset_bytes();
  fetched.memory.allocation_bytes = reply.memory().allocation_bytes();
  fetched.memory.handle = reply.memory().handle();
  fetched.memory.fd = fetched.fd.get();
  fetched.memory.owner_pid = peer.pid;
  // Its owner's namespace is the other daemon's, and that one's is this one's.
  fetched.memory.same_pid_namespace =
      reply.memory().same_pid_namespace() && os::SharesPidNamespace(peer.pid);
  return fetched;
}

}  // namespace onecopy::handover
