#include "daemon/rpc/outgoing/outgoing.h"

namespace onecopy::rpc {

OutgoingCalls::OutgoingCalls(Executor& engine, grpc::CompletionQueue& queue)
    : engine_(engine), queue_(queue) {
  shared_->engine = &engine;
}

OutgoingCalls::~OutgoingCalls() {
  {
    const MutexLock lock(shared_->mutex);
    shared_->engine = nullptr;
  }
  for (const auto& call : shared_->calls) call->GiveUp(engine_);
  shared_->calls.clear();
}

void OutgoingCalls::Completed(const std::shared_ptr<Shared>& shared,
                              std::shared_ptr<AnyCall> call) {
  const MutexLock lock(shared->mutex);
  if (shared->engine == nullptr) return;
  shared->engine->Post([shared, call = std::move(call)] {
    shared->calls.erase(call);
    call->Answer();
  });
}

}  // namespace onecopy::rpc
