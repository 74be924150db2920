// The gRPC channel to another daemon.
#pragma once

#include <grpcpp/support/status.h>

#include <chrono>
#include <memory>
#include <string>

#include "daemon/rpc/tls.h"
#include "onecopy/v1/peer.grpc.pb.h"
#include "transport/core/status.h"

namespace onecopy::rpc {

// A method of PeerService, for errors, and how long it may take.
struct PeerMethod {
  const char* name;
  std::chrono::milliseconds timeout;
};

// Engine thread.
class PeerChannel {
 public:
  using Stub = v1::PeerService::Stub;

  PeerChannel(std::string name, std::string address, Credentials credentials);

  // Of a channel that has not failed. gRPC would make calls wait for its own attempts to connect,
  // and fail at once between them; here a failed channel is thrown away, so that each call after it
  // really tries, and when to try is the engine's choice alone.
  const std::shared_ptr<Stub>& Connected();

  // The call's failure as ours; the peer's own errors stay as they are. Throws the channel away
  // where the failure shows that it does not work.
  Status Explain(const PeerMethod& method, const std::shared_ptr<Stub>& used,
                 const grpc::Status& status);

  // An answer that makes no sense.
  Status Nonsense(const PeerMethod& method, const Status& why) const;

 private:
  std::string Who() const { return "peer " + name_ + " (" + address_ + ")"; }

  const std::string name_;
  const std::string address_;
  const Credentials credentials_;
  std::shared_ptr<Stub> stub_;  // empty: the next call makes a channel
};

}  // namespace onecopy::rpc
