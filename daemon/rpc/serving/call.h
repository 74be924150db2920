// Calls of an asynchronous gRPC server: how a method is registered, handled and answered.
//
// Register a method with ServeUnary or ServeStream once the server is built; each call then runs
// its handler on the completion queue's thread, while the next one is waited for already. A handler
// finds out who calls and charges it; what takes longer it leaves to Serving::Read; it never
// blocks. What it is given to answer with may be used on any thread.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "daemon/engine/base/ledger.h"
#include "daemon/engine/base/turns.h"
#include "daemon/engine/base/workers.h"
#include "daemon/rpc/grpc/completion_queue.h"
#include "daemon/rpc/grpc/grpc_status.h"
#include "daemon/rpc/identity/greetings.h"
#include "daemon/rpc/serving/call_set.h"
#include "daemon/rpc/serving/received.h"
#include "onecopy/reasons.h"
#include "onecopy/result.h"
#include "transport/core/base/executor.h"
#include "transport/core/base/mutex.h"

namespace onecopy::rpc {

// Where a server's methods are served.
struct Serving {
  // Runs `task`, which decodes a request, when its payer has its turn. Long requests have a thread
  // of their own, so that short ones do not wait for them.
  void Read(const engine::Owner& payer, bool is_long, Task task) const {
    if (is_long && readers.Post({"long requests", payer}, task).ok()) return;
    turns.Post(payer, std::move(task));  // also if that thread cannot be created
  }

  grpc::ServerCompletionQueue& queue;
  CallSet& calls;
  engine::Turns turns;  // on the queue's thread
  engine::Workers& readers;
  std::shared_ptr<Greetings> greetings;
};

inline Status Ending() {
  return {Code::kUnavailable, reasons::kDraining, "the daemon is shutting down",
          "try again after it has restarted"};
}

// What a call is charged with.
using Share = std::shared_ptr<engine::Ledger::Charge>;

template <typename Reply>
class Answerable {
 public:
  virtual ~Answerable() = default;
  virtual void Answer(Result<Reply> answer) = 0;
  // Lets go of it when the call is over: its answer has been sent, or cannot be. Then it is charged
  // for the answer's bytes in place of the request's.
  virtual void Keep(Share share) = 0;
};

// The right and duty to answer one call, once. Dropped unused, it answers that the daemon is
// ending: so it is when an executor stops with the work still queued. It may outlive the server,
// whose calls belong to the server alone.
template <typename Reply>
class Responder {
 public:
  explicit Responder(std::weak_ptr<Answerable<Reply>> call) : call_(std::move(call)) {}
  Responder(Responder&&) noexcept = default;
  Responder& operator=(Responder&&) = delete;
  ~Responder() { (*this)(Ending()); }

  void operator()(Result<Reply> answer) {
    if (observer_) std::exchange(observer_, nullptr)(answer.ok() ? OkStatus() : answer.status());
    if (const auto call = std::exchange(call_, {}).lock()) call->Answer(std::move(answer));
  }
  void Keep(Share share) {
    if (const auto call = call_.lock()) call->Keep(std::move(share));
  }
  // Hears, just before, how the call is answered.
  void Observe(UniqueFunction<void(const Status&)> observer) { observer_ = std::move(observer); }

 private:
  std::weak_ptr<Answerable<Reply>> call_;
  UniqueFunction<void(const Status&)> observer_;
};

// --- one request, one reply ---

template <typename Service, typename Request, typename Reply>
struct UnaryMethod {
  using Handler =
      std::function<void(const grpc::ServerContext&, Received<Request>, Responder<Reply>)>;

  Service& service;
  int number;
  Handler handler;
  Serving serving;
};

template <typename Service, typename Request, typename Reply>
class UnaryCall final : public ServerCall,
                        public Answerable<Reply>,
                        public std::enable_shared_from_this<UnaryCall<Service, Request, Reply>> {
 public:
  using Method = UnaryMethod<Service, Request, Reply>;

  explicit UnaryCall(std::shared_ptr<const Method> method) : method_(std::move(method)) {}

  // Waits for the method's next call.
  static void Begin(const std::shared_ptr<const Method>& method) {
    const auto call = std::make_shared<UnaryCall>(method);
    const Serving& serving = method->serving;
    if (!serving.calls.Enter(call)) return;
    method->service.RequestAsyncUnary(method->number, &call->context_, &call->request_,
                                      &call->writer_, &serving.queue, &serving.queue,
                                      NewTag([call](bool ok) { call->Called(ok); }));
  }

  void Answer(Result<Reply> answer) override {
    const MutexLock lock(mutex_);
    Finish(std::move(answer));
  }

  void Keep(Share share) override {
    const MutexLock lock(mutex_);
    share_.swap(share);
  }

  void Abort(const Status& why) override {
    const MutexLock lock(mutex_);
    if (called_) {
      Finish(why);
    } else {
      aborted_ = why;
    }
  }

  void BreakOff() override { context_.TryCancel(); }

 private:
  void Called(bool ok) {
    const auto self = this->shared_from_this();
    if (!ok) return method_->serving.calls.Leave(self);  // the server has been shut down
    Begin(method_);
    {
      const MutexLock lock(mutex_);
      called_ = true;
      if (!aborted_.ok()) return Finish(aborted_);
    }
    // Not kept until the answer is read.
    method_->handler(context_, Received<Request>(std::exchange(request_, {})),
                     Responder<Reply>(self));
  }

  // Under the mutex, so that whoever has seen the call answered knows that the operation has begun.
  void Finish(Result<Reply> answer) ONECOPY_REQUIRES(mutex_) {
    if (std::exchange(answered_, true)) return;
    const auto self = this->shared_from_this();
    CallSet& calls = method_->serving.calls;
    // First, because the server may go once this call's own operation has ended.
    const uint64_t number = calls.BeginAnswer(self);
    void* tag = NewTag([self, &calls, number](bool) {
      calls.EndAnswer(number);
      calls.Leave(self);
    });
    if (share_ != nullptr) share_->SetBytes(answer.ok() ? answer->ByteSizeLong() : 0);
    if (answer.ok()) {
      writer_.Finish(*answer, grpc::Status::OK, tag);
    } else {
      writer_.FinishWithError(ToGrpc(answer.status()), tag);
    }
  }

  const std::shared_ptr<const Method> method_;
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  grpc::ServerAsyncResponseWriter<Reply> writer_{&context_};
  Mutex mutex_;
  bool called_ ONECOPY_GUARDED_BY(mutex_) = false;
  bool answered_ ONECOPY_GUARDED_BY(mutex_) = false;
  Status aborted_ ONECOPY_GUARDED_BY(mutex_);
  Share share_ ONECOPY_GUARDED_BY(mutex_);
};

// A method of an asynchronous service as gRPC generates it, which tells the method's types.
template <typename Base, typename Request, typename Writer>
using GrpcMethod = void (Base::*)(grpc::ServerContext*, Request*, Writer*, grpc::CompletionQueue*,
                                  grpc::ServerCompletionQueue*, void*);
template <typename Base, typename Request, typename Reply>
using GrpcUnary = GrpcMethod<Base, Request, grpc::ServerAsyncResponseWriter<Reply>>;
template <typename Base, typename Request, typename Reply>
using GrpcStream = GrpcMethod<Base, Request, grpc::ServerAsyncWriter<Reply>>;

// Has every call of a method answered by `handler(context, received request, Responder<Reply>)`.
template <typename Service, typename Base, typename Request, typename Reply>
void ServeUnary(Unread<Service>& service, GrpcUnary<Base, Request, Reply> /*method*/,
                const Serving& serving,
                typename UnaryMethod<Unread<Service>, Request, Reply>::Handler handler) {
  using Method = UnaryMethod<Unread<Service>, Request, Reply>;
  UnaryCall<Unread<Service>, Request, Reply>::Begin(std::make_shared<const Method>(
      Method{service, MethodNumber<Unread<Service>, Request>(false), std::move(handler), serving}));
}

// --- one request, many replies ---

// A client that is told news until there is a last piece of it. One that reads slowly gets fewer:
// what it has not been sent yet is replaced by what is newer. Any thread. Handlers get it weakly:
// it is gone once the call is.
template <typename Reply>
class Subscriber {
 public:
  virtual ~Subscriber() = default;
  // `last`: the call ends well after this. What comes after the end is dropped.
  virtual void Update(Reply newest, bool last) = 0;
  virtual void Fail(const Status& why) = 0;
  // `sent` runs each time that what Update gave is on its way, on the queue's thread, and must not
  // block: whoever updates only then has nothing replaced, and is held up by a client that does not
  // read. Set before the first update.
  virtual void OnSent(std::function<void()> sent) = 0;
  // `task` runs once, when the call has ended in any way: on the queue's thread, or at once where
  // it has ended already. Must not block. One task at most.
  virtual void OnEnd(Task task) = 0;
  // As of an answerable call.
  virtual void Keep(Share share) = 0;
};

template <typename Service, typename Request, typename Reply>
struct StreamMethod {
  using Handler = std::function<void(const grpc::ServerContext&, const Request&,
                                     std::weak_ptr<Subscriber<Reply>>)>;

  Service& service;
  int number;
  Handler handler;
  Serving serving;
};

template <typename Service, typename Request, typename Reply>
class StreamCall final : public ServerCall,
                         public Subscriber<Reply>,
                         public std::enable_shared_from_this<StreamCall<Service, Request, Reply>> {
 public:
  using Method = StreamMethod<Service, Request, Reply>;

  explicit StreamCall(std::shared_ptr<const Method> method) : method_(std::move(method)) {}

  // Waits for the method's next call.
  static void Begin(const std::shared_ptr<const Method>& method) {
    const auto call = std::make_shared<StreamCall>(method);
    const Serving& serving = method->serving;
    if (!serving.calls.Enter(call)) return;
    // This one comes back only where the call does come, and must be asked for before.
    call->ended_tag_ = NewTag([call](bool) { call->Ended(); });
    call->context_.AsyncNotifyWhenDone(call->ended_tag_);
    method->service.RequestAsyncServerStreaming(method->number, &call->context_, &call->request_,
                                                &call->writer_, &serving.queue, &serving.queue,
                                                NewTag([call](bool ok) { call->Called(ok); }));
  }

  void Update(Reply newest, bool last) override {
    const MutexLock lock(mutex_);
    if (end_) return;
    newest_ = std::move(newest);
    // What is being written has been charged, and may be as large.
    if (share_ != nullptr) share_->SetBytes(2 * newest_->ByteSizeLong());
    if (last) end_ = OkStatus();
    Pump();
  }

  void Fail(const Status& why) override {
    const MutexLock lock(mutex_);
    if (end_) return;
    newest_.reset();
    end_ = why;
    Pump();
  }

  void OnSent(std::function<void()> sent) override {
    const MutexLock lock(mutex_);
    on_sent_ = std::move(sent);
  }

  void OnEnd(Task task) override {
    {
      const MutexLock lock(mutex_);
      if (!ended_) {
        on_end_ = std::move(task);
        return;
      }
    }
    task();
  }

  void Keep(Share share) override {
    const MutexLock lock(mutex_);
    share_.swap(share);
  }

  void Abort(const Status& why) override { Fail(why); }
  void BreakOff() override { context_.TryCancel(); }

 private:
  void Called(bool ok) {
    const auto self = this->shared_from_this();
    if (!ok) {
      FreeTag(ended_tag_);
      return method_->serving.calls.Leave(self);
    }
    Begin(method_);
    {
      const MutexLock lock(mutex_);
      operations_ = 1;  // that which tells of the end
      called_ = true;
      if (end_) return Pump();
    }
    Received<Request> received(std::exchange(request_, {}));
    const Result<const Request*> request = received.ReadShort();
    if (!request.ok()) return Fail(request.status());
    method_->handler(context_, **request, self);
  }

  // Starts the next operation, one at a time.
  void Pump() ONECOPY_REQUIRES(mutex_) {
    if (!called_ || writing_ || finishing_) return;
    const auto self = this->shared_from_this();
    if (newest_) {
      writing_ = true;
      ++operations_;
      writer_.Write(*std::exchange(newest_, std::nullopt),
                    NewTag([self](bool ok) { self->Written(ok); }));
    } else if (end_) {
      finishing_ = true;
      ++operations_;
      CallSet& calls = method_->serving.calls;
      const uint64_t number = calls.BeginAnswer(self);
      writer_.Finish(ToGrpc(*end_), NewTag([self, &calls, number](bool) {
                       calls.EndAnswer(number);
                       self->Completed();
                     }));
    }
  }

  void Written(bool ok) {
    std::function<void()> sent;
    {
      const MutexLock lock(mutex_);
      writing_ = false;
      if (!ok) Break();
      Pump();
      if (!end_) sent = on_sent_;
    }
    if (sent) sent();
    Completed();
  }

  // The call is over: the client has gone, or has its last reply.
  void Ended() {
    Task task;
    {
      const MutexLock lock(mutex_);
      ended_ = true;
      Break();
      Pump();
      task = std::exchange(on_end_, nullptr);
    }
    if (task) task();
    Completed();
  }

  // Nothing can be sent any more.
  void Break() ONECOPY_REQUIRES(mutex_) {
    newest_.reset();
    if (!end_) end_ = Status(Code::kCancelled, reasons::kCancelled, "the client has gone");
  }

  void Completed() {
    bool last = false;
    {
      const MutexLock lock(mutex_);
      last = --operations_ == 0;
    }
    if (last) method_->serving.calls.Leave(this->shared_from_this());
  }

  const std::shared_ptr<const Method> method_;
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  grpc::ServerAsyncWriter<Reply> writer_{&context_};
  void* ended_tag_ = nullptr;
  Mutex mutex_;
  bool called_ ONECOPY_GUARDED_BY(mutex_) = false;
  bool writing_ ONECOPY_GUARDED_BY(mutex_) = false;
  bool finishing_ ONECOPY_GUARDED_BY(mutex_) = false;
  bool ended_ ONECOPY_GUARDED_BY(mutex_) = false;
  int operations_ ONECOPY_GUARDED_BY(mutex_) = 0;  // that will come back
  std::optional<Reply> newest_ ONECOPY_GUARDED_BY(mutex_);
  // How to end once `newest_` is sent.
  std::optional<Status> end_ ONECOPY_GUARDED_BY(mutex_);
  std::function<void()> on_sent_ ONECOPY_GUARDED_BY(mutex_);
  Task on_end_ ONECOPY_GUARDED_BY(mutex_);
  Share share_ ONECOPY_GUARDED_BY(mutex_);
};

// Has every call of a method handled by `handler(context, request, weak Subscriber<Reply>)`; its
// requests must be short.
template <typename Service, typename Base, typename Request, typename Reply>
void ServeStream(Unread<Service>& service, GrpcStream<Base, Request, Reply> /*method*/,
                 const Serving& serving,
                 typename StreamMethod<Unread<Service>, Request, Reply>::Handler handler) {
  using Method = StreamMethod<Unread<Service>, Request, Reply>;
  StreamCall<Unread<Service>, Request, Reply>::Begin(std::make_shared<const Method>(
      Method{service, MethodNumber<Unread<Service>, Request>(true), std::move(handler), serving}));
}

}  // namespace onecopy::rpc
