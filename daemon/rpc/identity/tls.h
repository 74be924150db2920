// How connections between daemons are secured.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>
#include <string>

#include "onecopy/status.h"
#include "transport/core/base/mutex.h"
#include "transport/os/threads/event_loop.h"
#include "transport/tls/trust.h"

namespace onecopy::rpc {

// What a node that was dialled has shown of itself. Any thread.
class ServerProof {
 public:
  ServerProof(std::shared_ptr<tls::Trust> trust, std::string node)
      : trust_(std::move(trust)), node_(std::move(node)) {}

  // Looks at what the node presents in a handshake.
  Status Evaluate(const std::string& certificate, const std::string& between);
  // Whether it is still to be believed: asked before each call, looks again after a change of
  // identity and where the last look is long ago.
  bool Holds();
  // Why the last handshake was refused; success where it was not.
  Status refusal() const;

 private:
  const std::shared_ptr<tls::Trust> trust_;
  const std::string node_;
  mutable Mutex mutex_;
  tls::Chain presented_ ONECOPY_GUARDED_BY(mutex_);  // empty before the first handshake
  Status refusal_ ONECOPY_GUARDED_BY(mutex_);
  uint64_t generation_ ONECOPY_GUARDED_BY(mutex_) = 0;  // at which it was looked at
  os::Clock::time_point looked_ ONECOPY_GUARDED_BY(mutex_){};
};

struct Credentials {
  std::shared_ptr<tls::Trust> trust;                // null: plain text, or what a test plays
  std::shared_ptr<grpc::ServerCredentials> server;  // of one server
  // For one channel to the node of `proof`, which hears of each handshake; with the identity that
  // counts now.
  std::function<std::shared_ptr<grpc::ChannelCredentials>(std::shared_ptr<ServerProof> proof)>
      channel;
  bool tls = false;
};

Credentials PlainText();

// Both sides prove who they are, by `trust` as it is at each handshake. What serves only asks for a
// certificate of one of its authorities there: whose it is, and whether it still counts, is looked
// at with each call (caller.h).
Credentials MutualTls(std::shared_ptr<tls::Trust> trust);

}  // namespace onecopy::rpc
