// Which node a call on PeerService comes from.
#pragma once

#include <grpcpp/server_context.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "onecopy/result.h"
#include "transport/os/event_loop.h"
#include "transport/tls/trust.h"

namespace onecopy::rpc {

// The thread of one server.
class Callers {
 public:
  // Without `trust` (plain text) a caller's word is taken: see AdmitPeers for what a local user's
  // is worth.
  Callers(std::string own_node, std::shared_ptr<tls::Trust> trust)
      : own_node_(std::move(own_node)), trust_(std::move(trust)) {}

  // The node that the call's metadata names, which cannot be this one: what a node asks of itself
  // does not come over a connection. The certificate of its connection must prove that name, now:
  // one that has expired or was revoked since the handshake is refused. UNAUTHENTICATED otherwise.
  Result<std::string> Of(const grpc::ServerContext& context);

 private:
  struct Believed {
    uint64_t generation = 0;
    os::Clock::time_point since{};
  };
  Status Prove(const grpc::ServerContext& context, const std::string& node);

  const std::string own_node_;
  const std::shared_ptr<tls::Trust> trust_;
  std::map<std::string, Believed> believed_;  // by node and certificate
};

// The value of a call's metadata; empty where there is none.
std::string MetadataOf(const grpc::ServerContext& context, const char* key);

}  // namespace onecopy::rpc
