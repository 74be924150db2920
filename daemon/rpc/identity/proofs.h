// What the certificates of connections prove, looked at again before it is believed further.
#pragma once

#include <grpcpp/server_context.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "onecopy/result.h"
#include "transport/os/threads/event_loop.h"
#include "transport/tls/trust.h"

namespace onecopy::rpc {

// What the caller presented in the handshake of its connection. UNAUTHENTICATED (CERT_REJECTED)
// where that is nothing.
Result<tls::Chain> PresentedBy(const grpc::ServerContext& context);

// The thread of one server.
class Proofs {
 public:
  // What is proven, or why it is not.
  using Judge = std::function<Result<std::string>(const tls::Identity&, const tls::Chain&)>;

  explicit Proofs(std::shared_ptr<tls::Trust> trust) : trust_(std::move(trust)) {}

  // What the caller's certificate proves by `judge`, which is asked anew after a change of identity
  // and where the last answer is long ago; `question` tells the judges of one certificate apart.
  Result<std::string> Of(const grpc::ServerContext& context, const std::string& question,
                         const Judge& judge);

 private:
  struct Believed {
    std::string what;
    uint64_t generation = 0;
    os::Clock::time_point since{};
  };

  const std::shared_ptr<tls::Trust> trust_;
  std::map<std::string, Believed> believed_;  // by question and certificate
};

}  // namespace onecopy::rpc
