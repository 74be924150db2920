// How this daemon reaches others: a gRPC channel for each.
#pragma once

#include <memory>
#include <string>

#include "daemon/engine/api/peer_api.h"
#include "daemon/rpc/grpc/completion_queue.h"
#include "daemon/rpc/identity/tls.h"
#include "daemon/rpc/outgoing/plain_dialer.h"
#include "transport/core/base/executor.h"

namespace onecopy::rpc {

// Runs the threads `rpc-2` and `dial`. Must outlive the proxies that it has made; the engine's
// executor must, too.
class Dialer final : public engine::PeerDialer {
 public:
  // With TLS peers check what calls name as their caller against this node's certificate.
  explicit Dialer(Credentials credentials);
  ~Dialer() override;  // waits for the calls of proxies that are gone, which end soon

  // Before the first Dial: where answers are given, the engine's executor. Not in the constructor,
  // because an engine is made with its dialer.
  void AnswerOn(Executor& engine);

  // See PeerDialer. The proxy's calls are bounded in time: a Hello in 3 s, what may read a whole
  // range for its checksum in 10 minutes, all others in 10 s. An unreachable peer is UNAVAILABLE
  // (PEER_DOWN), one whose certificate is not good enough UNAUTHENTICATED (CERT_REJECTED), an
  // answer that makes no sense UNAVAILABLE (PEER_INCOMPATIBLE). Each failure to connect is final
  // for its call; the next call tries again, at once.
  std::unique_ptr<engine::PeerApi> Dial(const std::string& name,
                                        const std::string& address) override;

 private:
  const Credentials credentials_;
  PlainDialer plain_;
  QueueThread queue_;
  Executor* engine_ = nullptr;
};

}  // namespace onecopy::rpc
