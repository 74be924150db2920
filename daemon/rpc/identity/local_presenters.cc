#include "daemon/rpc/identity/local_presenters.h"

#include <unistd.h>

#include <utility>

#include "daemon/engine/registry/identify.h"
#include "daemon/rpc/identity/doors.h"
#include "onecopy/reasons.h"
#include "transport/os/sockets/unix_socket.h"

namespace onecopy::rpc {

Result<Admitted> LocalPresenters::Admit(int fd) {
  ONECOPY_ASSIGN_OR_RETURN(const os::PeerProcess peer, os::UnixPeer(fd));
  auto identified = engine::Identify(fd, peer, *names_);
  if (!identified.ok()) {
    if (identified.status().reason() != reasons::kOwnerDied) return identified.status();
    return Status(Code::kUnavailable, reasons::kLinkDown, "the client has ended");
  }
  const std::string who = identified->identity.presenter;
  const bool administrator =
      identified->own_namespaces && (peer.uid == 0 || peer.uid == ::geteuid());
  Known known{std::move(identified->identity), identified->alone, administrator};
  known.identity.pid = 0;  // others of the same user come by the same door
  known.identity.entrance = "api.sock";
  const MutexLock lock(mutex_);
  std::shared_ptr<const Known> kept = known_[who].lock();
  if (kept == nullptr) {
    std::erase_if(known_, [](const auto& entry) { return entry.second.expired(); });
    kept = std::make_shared<const Known>(std::move(known));
    known_[who] = kept;
  }
  engine::Owner payer{kept->identity.uid.payer(), node_};
  return Admitted{who, std::move(payer), administrator, std::move(kept)};
}

Result<std::string> LocalPresenters::Presenter(const grpc::ServerContext& context) {
  return WhoCalls(context);
}

Presenters::Payer LocalPresenters::PayerOf(const grpc::ServerContext& context) {
  const MutexLock lock(mutex_);
  const auto found = known_.find(WhoCalls(context));
  const auto known = found == known_.end() ? nullptr : found->second.lock();
  // Its connection has ended, and the call with it.
  if (known == nullptr) return {engine::Stranger("api.sock"), false};
  return {{known->identity.uid.payer(), node_}, known->administrator};
}

Result<engine::ClientIdentity> LocalPresenters::Identity(const grpc::ServerContext& context) {
  std::shared_ptr<const Known> known;
  {
    const MutexLock lock(mutex_);
    if (const auto found = known_.find(WhoCalls(context)); found != known_.end()) {
      known = found->second.lock();
    }
  }
  if (known == nullptr) {
    return Status(Code::kUnavailable, reasons::kLinkDown, "the client's connection has ended");
  }
  if (known->alone) {
    return Status(Code::kPermissionDenied, reasons::kAccessDenied,
                  "the kernel does not report this client's namespaces, so it cannot open a "
                  "session over api.sock",
                  "attach over attach.sock, which identifies the client by its connection");
  }
  return known->identity;
}

}  // namespace onecopy::rpc
