#include <utility>

#include "client/lib/calls/wire.h"
#include "client/lib/session/connection.h"
#include "client/lib/transfers/async_loop.h"
#include "client/lib/transfers/pending_transfer.h"
#include "client/lib/transfers/print_create.h"
#include "client/lib/transfers/ring_pending.h"
#include "client/lib/transfers/transfer_call.h"
#include "onecopy/client.h"

namespace onecopy {

using client::AsyncLoop;
using client::PendingTransfer;
using client::RingPending;
using client::SharedRequest;
using client::TransferCall;
using OnRing = TransferCall::OnRing;

namespace {

// The call that a future cancels, which is made after it.
class FutureCall {
 public:
  explicit FutureCall(const std::shared_ptr<AsyncLoop>& loop) : loop_(loop) {}

  Status Begin(const std::shared_ptr<TransferCall>& call) {
    const auto loop = loop_.lock();
    if (loop == nullptr) {
      return {Code::kCancelled, reasons::kCancelled, "the Client was destroyed"};
    }
    ONECOPY_RETURN_IF_ERROR(loop->Open());
    *call_ = call;
    return loop->Add(call);
  }
  // The same, once it is released.
  Status Hold(const std::shared_ptr<TransferCall>& call) {
    const auto loop = loop_.lock();
    *call_ = call;
    return loop->Hold(call);
  }
  std::shared_ptr<AsyncLoop> loop() const { return loop_.lock(); }

  std::function<void()> Canceller() const {
    return [loop = loop_, call = call_] {
      const auto runs = loop.lock();
      const auto cancelled = call->lock();
      if (runs != nullptr && cancelled != nullptr) runs->Cancel(cancelled);
    };
  }

 private:
  std::weak_ptr<AsyncLoop> loop_;
  std::shared_ptr<std::weak_ptr<TransferCall>> call_ =
      std::make_shared<std::weak_ptr<TransferCall>>();
};

std::shared_ptr<PendingTransfer> MakePending(const std::shared_ptr<AsyncLoop>& loop,
                                             const FutureCall& call, TransferCallbacks callbacks) {
  auto pending = std::make_shared<PendingTransfer>(std::move(callbacks), call.Canceller());
  pending->set_loop(loop.get());
  return pending;
}

// Of a transfer that is on the ring already and that has no callbacks.
Result<std::shared_ptr<PendingTransfer>> MakeOnRing(const std::shared_ptr<AsyncLoop>& loop,
                                                    client::SessionRef session, uint64_t number,
                                                    SharedRequest request) {
  FutureCall call(loop);
  const auto hand_over = [call](std::shared_ptr<PendingTransfer> pending,
                                SharedRequest refused) mutable -> Status {
    const auto runs = call.loop();
    if (runs == nullptr) {
      return {Code::kCancelled, reasons::kCancelled, "the Client was destroyed"};
    }
    return call.Begin(std::make_shared<TransferCall>(*runs, std::move(pending), std::move(refused),
                                                     std::nullopt, OnRing{}));
  };
  auto pending = std::make_shared<RingPending>(call.Canceller(), std::move(session), number,
                                               std::move(request), hand_over);
  pending->set_loop(loop.get());
  ONECOPY_RETURN_IF_ERROR(loop->AddOnRing(pending));
  return std::shared_ptr<PendingTransfer>(std::move(pending));
}

// What is looked at after it has been sent.
SharedRequest WithoutRanges(const TransferRequest& request) {
  TransferRequest kept;
  kept.source = request.source;
  kept.destination = request.destination;
  kept.more_sources = request.more_sources;
  kept.more_destinations = request.more_destinations;
  kept.validate_only = request.validate_only;
  kept.deadline = request.deadline;
  kept.part_of = request.part_of;
  return std::make_shared<const TransferRequest>(std::move(kept));
}

// `shared` is the request, where the caller shares it.
Result<std::shared_ptr<PendingTransfer>> RunAsync(const std::shared_ptr<AsyncLoop>& loop,
                                                  client::SessionRef session,
                                                  const TransferRequest& request,
                                                  SharedRequest shared,
                                                  TransferCallbacks callbacks) {
  ONECOPY_RETURN_IF_ERROR(client::CheckTexts(request));
  // A transfer on the ring that only its future tells about needs no thread.
  ONECOPY_RETURN_IF_ERROR(callbacks.on_end ? loop->Open() : loop->CheckOpen());
  OnRing on_ring;
  if (!callbacks.on_update) {
    const auto attempt = session->ring().TryBegin(request);
    if (attempt.number && !callbacks.on_end) {
      if (shared == nullptr) shared = std::make_shared<const TransferRequest>(request);
      return MakeOnRing(loop, std::move(session), *attempt.number, std::move(shared));
    }
    on_ring = {std::move(session), attempt.number, attempt.worth_asking};
  }
  ONECOPY_RETURN_IF_ERROR(loop->Open());
  // Here, as the loop's thread works for others, too.
  std::optional<v1::CreateTransferRequest> wire;
  if (on_ring.number || on_ring.wanted) {
    if (shared == nullptr) shared = std::make_shared<const TransferRequest>(request);
  } else {
    ONECOPY_ASSIGN_OR_RETURN(wire, client::PrintCreate(request));
    if (shared == nullptr) shared = WithoutRanges(request);
  }
  FutureCall call(loop);
  auto pending = MakePending(loop, call, std::move(callbacks));
  ONECOPY_RETURN_IF_ERROR(call.Begin(std::make_shared<TransferCall>(
      *loop, pending, std::move(shared), std::move(wire), std::move(on_ring))));
  return pending;
}

}  // namespace

Result<TransferFuture> Client::RunTransferAsync(const TransferRequest& request,
                                                TransferCallbacks callbacks) {
  ONECOPY_ASSIGN_OR_RETURN(client::SessionRef session, connection_->Latest());
  ONECOPY_ASSIGN_OR_RETURN(
      auto pending, RunAsync(loop_, std::move(session), request, nullptr, std::move(callbacks)));
  return TransferFuture(std::move(pending));
}

Result<TransferFuture> Client::RunTransferAsync(std::shared_ptr<const TransferRequest> request,
                                                TransferCallbacks callbacks) {
  ONECOPY_ASSIGN_OR_RETURN(client::SessionRef session, connection_->Latest());
  const TransferRequest& asked = *request;
  ONECOPY_ASSIGN_OR_RETURN(auto pending, RunAsync(loop_, std::move(session), asked,
                                                  std::move(request), std::move(callbacks)));
  return TransferFuture(std::move(pending));
}

Result<TransferFuture> Client::RunTransferAsync(const TransferRequest& request,
                                                const StreamOrder& order,
                                                TransferCallbacks callbacks) {
  ONECOPY_RETURN_IF_ERROR(connection_->Latest().status());
  ONECOPY_RETURN_IF_ERROR(client::CheckTexts(request));
  ONECOPY_RETURN_IF_ERROR(loop_->Open());
  ONECOPY_ASSIGN_OR_RETURN(std::shared_ptr<const shim::CudaApi> api, connection_->Cuda());
  ONECOPY_ASSIGN_OR_RETURN(const auto streams, loop_->Streams(std::move(api)));
  ONECOPY_ASSIGN_OR_RETURN(auto wire, client::PrintCreate(request));
  client::StreamOrders::WordRef word;
  if (order.then) {
    ONECOPY_ASSIGN_OR_RETURN(word, streams->NewWord(*order.then));
    callbacks.on_end = [word, end = std::move(callbacks.on_end)](const auto& outcome) {
      word->Set();
      if (end) end(outcome);
    };
  }
  FutureCall future(loop_);
  auto pending = MakePending(loop_, future, std::move(callbacks));
  const auto call = std::make_shared<TransferCall>(*loop_, pending, WithoutRanges(request),
                                                   std::move(wire), OnRing{});
  ONECOPY_RETURN_IF_ERROR(future.Hold(call));
  const Status queued =
      streams->Queue(order, word, [loop = std::weak_ptr(loop_), held = std::weak_ptr(call)] {
        const auto runs = loop.lock();
        const auto begins = held.lock();
        if (runs != nullptr && begins != nullptr) runs->Release(begins);
      });
  if (!queued.ok()) {
    loop_->Forget(call);
    return queued;
  }
  return TransferFuture(std::move(pending));
}

Result<TransferFuture> Client::AwaitTransferAsync(const TransferId& id,
                                                  TransferCallbacks callbacks) {
  ONECOPY_RETURN_IF_ERROR(connection_->CheckProcess());
  ONECOPY_RETURN_IF_ERROR(client::CheckText("the transfer's id", id.str()));
  FutureCall call(loop_);
  auto pending = MakePending(loop_, call, std::move(callbacks));
  ONECOPY_RETURN_IF_ERROR(call.Begin(std::make_shared<TransferCall>(*loop_, pending, id)));
  return TransferFuture(std::move(pending));
}

}  // namespace onecopy
