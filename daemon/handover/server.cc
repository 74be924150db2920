#include "daemon/handover/server.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "onecopy/reasons.h"
#include "onecopy/v1/handover.pb.h"
#include "proto/codec/status_codec.h"
#include "transport/os/machine/machine.h"
#include "transport/os/sockets/packet.h"
#include "transport/os/sockets/unix_socket.h"

namespace onecopy::handover {
namespace {

constexpr size_t kTokenBytes = 16;
constexpr size_t kMaxRequestBytes = 256;
constexpr int kBacklog = 32;

}  // namespace

Server::Server(os::EventLoop& loop) : Server(loop, Limits()) {}
Server::Server(os::EventLoop& loop, Limits limits) : loop_(loop), limits_(limits) {}
Server::~Server() { Clear(); }

Status Server::Listen() {
  name_ = "onecopy-" + os::RandomHex(kTokenBytes);
  ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd listener,
                           os::ListenAbstract(name_, SOCK_SEQPACKET, kBacklog));
  auto acceptor = std::make_unique<os::Acceptor>(
      loop_, std::move(listener), [this](os::UniqueFd socket) { Connected(std::move(socket)); },
      // Who connects meanwhile waits in vain, and takes another path.
      [](const Status&) {});
  ONECOPY_RETURN_IF_ERROR(acceptor->Start());
  acceptor_ = std::move(acceptor);
  return OkStatus();
}

Result<Address> Server::Offer(const ImportRequest& memory, os::UniqueFd fd) {
  if (acceptor_ == nullptr) ONECOPY_RETURN_IF_ERROR(Listen());
  if (offers_.size() >= limits_.most_offers) {
    return Status(Code::kResourceExhausted, reasons::kQuota,
                  std::to_string(offers_.size()) +
                      " pieces of memory already wait for other daemons of this host",
                  "try again");
  }
  const std::string token = os::RandomHex(kTokenBytes);
  Offered& offer = offers_[token];
  offer.memory = memory;
  offer.fd = std::move(fd);
  offer.timer = loop_.RunAfter(limits_.lifetime, [this, token] { offers_.erase(token); });
  return Address{name_, token};
}

void Server::Clear() {
  acceptor_.reset();
  for (auto& [token, offer] : offers_) loop_.CancelTimer(offer.timer);
  offers_.clear();
  while (!connections_.empty()) Close(connections_.begin()->first);
}

void Server::Connected(os::UniqueFd socket) {
  const Result<os::PeerProcess> peer = os::UnixPeer(socket.get());
  if (!peer.ok() || peer->uid != ::geteuid()) return;
  if (connections_.size() >= limits_.most_connections) return;
  const uint64_t number = next_++;
  const int fd = socket.get();
  connections_[number].socket = std::move(socket);
  if (!loop_.Watch(fd, EPOLLIN, [this, number](uint32_t) { OnRequest(number); }).ok()) {
    connections_.erase(number);
    return;
  }
  connections_[number].timer = loop_.RunAfter(limits_.patience, [this, number] { Close(number); });
}

void Server::OnRequest(uint64_t number) {
  const int socket = connections_.at(number).socket.get();
  const auto packet = os::ReceivePacket(socket, kMaxRequestBytes);
  if (packet.ok() && !*packet) return;
  if (packet.ok() && !(*packet)->end && !(*packet)->bytes_cut) {
    os::UniqueFd fd;
    const std::string reply = Answer((*packet)->bytes, &fd);
    // To one that does not take it: it will ask again, by another path.
    (void)(fd ? os::SendPacket(socket, reply, fd.get()) : os::SendPacket(socket, reply));
  }
  Close(number);
}

std::string Server::Answer(const std::string& request, os::UniqueFd* fd) {
  v1::HandoverRequest asked;
  v1::HandoverReply reply;
  auto offer = asked.ParseFromString(request) ? offers_.extract(asked.token())
                                              : std::map<std::string, Offered>::node_type();
  if (offer.empty()) {
    *reply.mutable_error() = ToProto(Status(
        Code::kPermissionDenied, reasons::kGrantExpired,
        "this memory is no longer offered: it was already fetched, or the request came too late"));
    return reply.SerializeAsString();
  }
  loop_.CancelTimer(offer.mapped().timer);
  const ImportRequest& memory = offer.mapped().memory;
  auto& printed = *reply.mutable_memory();
  printed.set_form(memory.form);
  printed.set_device(memory.device);
  printed.set_bytes(memory.bytes);
  printed.set_offset_bytes(memory.offset);
  printed.set_allocation_bytes(memory.allocation_bytes);
  printed.set_handle(memory.handle);
  printed.set_same_pid_namespace(memory.same_pid_namespace);
  *fd = std::move(offer.mapped().fd);
  return reply.SerializeAsString();
}

void Server::Close(uint64_t number) {
  auto connection = connections_.extract(number);
  if (connection.empty()) return;
  loop_.CancelTimer(connection.mapped().timer);
  loop_.Unwatch(connection.mapped().socket.get());
}

}  // namespace onecopy::handover
