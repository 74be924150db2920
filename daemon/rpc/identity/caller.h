// Which node a call on PeerService comes from.
#pragma once

#include <grpcpp/server_context.h>

#include <memory>
#include <optional>
#include <string>

#include "daemon/rpc/identity/proofs.h"
#include "onecopy/result.h"

namespace onecopy::rpc {

// The thread of one server.
class Callers {
 public:
  // Without `trust` (plain text) a caller's word is taken: see AdmitPeers for what a local user's
  // is worth.
  Callers(std::string own_node, std::shared_ptr<tls::Trust> trust)
      : own_node_(std::move(own_node)) {
    if (trust != nullptr) proofs_.emplace(std::move(trust));
  }

  // The node that the call's metadata names, which cannot be this one: what a node asks of itself
  // does not come over a connection. The certificate of its connection must prove that name, now:
  // one that has expired or was revoked since the handshake is refused. UNAUTHENTICATED otherwise.
  Result<std::string> Of(const grpc::ServerContext& context);

 private:
  const std::string own_node_;
  std::optional<Proofs> proofs_;  // none: plain text
};

// UNAUTHENTICATED, of a call on api.sock without a session's token.
Status NoSession();

// The value of a call's metadata; empty where there is none.
std::string MetadataOf(const grpc::ServerContext& context, const char* key);

}  // namespace onecopy::rpc
