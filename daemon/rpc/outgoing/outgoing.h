// Calls to another daemon in progress.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/async_unary_call.h>

#include <chrono>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "daemon/rpc/grpc/completion_queue.h"
#include "onecopy/v1/peer.grpc.pb.h"
#include "proto/codec/protocol.h"
#include "transport/core/base/executor.h"
#include "transport/core/base/mutex.h"

namespace onecopy::rpc {

// The calls in progress to one peer. Engine thread; destroying it ends them with CANCELLED.
class OutgoingCalls {
 public:
  // `engine` is where calls are answered, on its thread: it must outlive this. The queue must
  // outlive the calls, which end soon after this.
  OutgoingCalls(Executor& engine, grpc::CompletionQueue& queue);
  ~OutgoingCalls();
  OutgoingCalls(const OutgoingCalls&) = delete;
  OutgoingCalls& operator=(const OutgoingCalls&) = delete;

  template <typename Request, typename Reply>
  using Start = std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> (v1::PeerService::Stub::*)(
      grpc::ClientContext*, const Request&, grpc::CompletionQueue*);
  // `peer` is the address that answered, as gRPC writes it.
  template <typename Reply>
  using Done = UniqueFunction<void(const grpc::Status&, const Reply&, const std::string& peer)>;

  // `done` runs once and never inside this, also where all calls are ended first.
  template <typename Request, typename Reply>
  void Call(v1::PeerService::Stub& stub, Start<Request, Reply> start, const Request& request,
            const std::string& own_node, std::chrono::milliseconds timeout, Done<Reply> done);

 private:
  class AnyCall {
   public:
    virtual ~AnyCall() = default;
    virtual void Answer() = 0;                  // engine thread; unless it was given up
    virtual void GiveUp(Executor& engine) = 0;  // engine thread
  };
  template <typename Reply>
  class TypedCall;

  // Shared with the calls' completions, which may come after this has gone.
  struct Shared {
    std::unordered_set<std::shared_ptr<AnyCall>> calls;  // engine thread
    Mutex mutex;
    Executor* engine ONECOPY_GUARDED_BY(mutex) = nullptr;  // null once this has gone
  };

  // Completion queue's thread.
  static void Completed(const std::shared_ptr<Shared>& shared, std::shared_ptr<AnyCall> call);

  Executor& engine_;
  grpc::CompletionQueue& queue_;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

template <typename Reply>
class OutgoingCalls::TypedCall final : public AnyCall {
 public:
  explicit TypedCall(Done<Reply> done) : done_(std::move(done)) {}

  grpc::ClientContext context;
  Reply reply;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> reader;

  void Answer() override {
    if (auto done = std::exchange(done_, nullptr)) done(status, reply, context.peer());
  }
  void GiveUp(Executor& engine) override {
    context.TryCancel();
    // Later, as every answer: who destroys the calls may be in the middle of something.
    engine.Post([done = std::exchange(done_, nullptr)]() mutable {
      done(grpc::Status(grpc::StatusCode::CANCELLED, "given up"), Reply(), {});
    });
  }

 private:
  Done<Reply> done_;  // engine thread; empty once run or given up
};

template <typename Request, typename Reply>
void OutgoingCalls::Call(v1::PeerService::Stub& stub, Start<Request, Reply> start,
                         const Request& request, const std::string& own_node,
                         std::chrono::milliseconds timeout, Done<Reply> done) {
  const auto call = std::make_shared<TypedCall<Reply>>(std::move(done));
  call->context.set_deadline(std::chrono::system_clock::now() + timeout);
  call->context.AddMetadata(kNodeMetadata, own_node);
  shared_->calls.insert(call);
  call->reader = (stub.*start)(&call->context, request, &queue_);
  call->reader->Finish(&call->reply, &call->status,
                       NewTag([shared = shared_, call](bool) { Completed(shared, call); }));
}

}  // namespace onecopy::rpc
