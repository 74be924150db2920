#include "daemon/rpc/outgoing/dialer.h"

#include <cassert>
#include <utility>

#include "daemon/rpc/outgoing/remote_node.h"

namespace onecopy::rpc {

Dialer::Dialer(Credentials credentials)
    : credentials_(std::move(credentials)),
      queue_(std::make_unique<grpc::CompletionQueue>(), "rpc-2") {}

Dialer::~Dialer() = default;

void Dialer::AnswerOn(Executor& engine) { engine_ = &engine; }

std::unique_ptr<engine::PeerApi> Dialer::Dial(const std::string& name, const std::string& address) {
  assert(engine_ != nullptr);
  return std::make_unique<RemoteNode>(
      std::make_unique<PeerChannel>(name, address, credentials_, *engine_, plain_), *engine_,
      queue_.queue());
}

}  // namespace onecopy::rpc
