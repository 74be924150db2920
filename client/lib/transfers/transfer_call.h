// One transfer that a client's thread works for: asked for by the ring or by gRPC, then watched.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "client/lib/calls/call_limit.h"
#include "client/lib/session/session.h"
#include "client/lib/transfers/async_loop.h"
#include "client/lib/transfers/pending_transfer.h"
#include "onecopy/transfer.h"

namespace onecopy::client {

// What may be asked for again and again, without a copy.
using SharedRequest = std::shared_ptr<const TransferRequest>;

// Only for the loop's thread, except the constructors. At most one event of it is under way, and
// one of its cancelling.
class TransferCall final : public Event {
 public:
  // Where the transfer `number` is on the session's ring already; or where the ring may be
  // asked to carry it.
  struct OnRing {
    SessionRef session;
    std::optional<uint64_t> number = {};
    bool wanted = false;
  };

  // Runs a transfer: `wire` is the request as it is sent, and absent where the ring may carry it.
  // With it, `request` says what a failure is explained by: its ends, and validate_only.
  TransferCall(AsyncLoop& loop, std::shared_ptr<PendingTransfer> pending, SharedRequest request,
               std::optional<v1::CreateTransferRequest> wire, OnRing on_ring);
  // Awaits one that was started.
  TransferCall(AsyncLoop& loop, std::shared_ptr<PendingTransfer> pending, TransferId id);

  // May block for as long as connecting to a new daemon takes, but not until there is one.
  // `asked`: when the loop was told to begin it.
  void Begin(CallLimit::Clock::time_point asked);
  void Cancel();
  // Ends it with that now; what is under way is left to itself.
  void Abandon(const Status& why);
  void Happened(bool ok) override;

  // Whether what it waited for on the ring is over.
  bool LookAtRing();
  // Waits a moment for any end on the ring, less patiently the longer nothing has moved.
  void WaitAtRing(std::chrono::nanoseconds waited);

 private:
  // What the event that is under way tells.
  enum class Phase { kNone, kAway, kOnRing, kCreating, kWatching, kReading, kFinishing };

  class Canceller final : public Event {
   public:
    explicit Canceller(TransferCall& call) : call_(call), session_(call.session_) {}
    void Begin();
    void Stop() { context_.TryCancel(); }
    void Happened(bool ok) override;

   private:
    TransferCall& call_;
    const SessionRef session_;
    grpc::ClientContext context_;
    v1::Transfer reply_;
    grpc::Status status_;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::Transfer>> reader_;
  };

  // Connects, or tries again in a moment; then begins, or continues with the next process of a
  // daemon that has restarted.
  void Attach();
  void AttachIn(std::chrono::milliseconds wait);
  void BeginBy(SessionRef session);
  void Create();
  void OnCreated();
  void Watch();
  void Read();
  void OnRead();
  void OnFinished();
  void StartCancelling();
  void End(Result<TransferInfo> outcome);
  void FinishIfUnused();
  Connection& connection() { return loop_.connection(); }

  AsyncLoop& loop_;
  const std::shared_ptr<PendingTransfer> pending_;
  const SharedRequest request_;  // null: to be awaited
  std::optional<v1::CreateTransferRequest> wire_;
  TransferId id_;  // once known
  CallLimit::Time limit_;
  CallLimit::Clock::time_point asked_;  // for a session
  SessionRef session_;
  Status lost_;                     // not OK: what the updates of an earlier session ended with
  grpc::Alarm alarm_;               // while no daemon answers
  std::optional<uint64_t> number_;  // on the ring
  bool ring_wanted_ = false;
  bool cancel_wanted_ = false;
  bool ended_ = false;  // the future is
  Phase phase_ = Phase::kNone;
  std::unique_ptr<Canceller> canceller_;  // where its event is under way
  std::unique_ptr<grpc::ClientContext> context_;
  v1::Transfer reply_;
  grpc::Status status_;
  std::optional<TransferInfo> last_;  // the last state, once it has come
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::Transfer>> creation_;
  std::unique_ptr<grpc::ClientAsyncReader<v1::Transfer>> updates_;
};

// Whether a transfer in that state is waited for no longer.
bool IsOver(const TransferInfo& transfer);

}  // namespace onecopy::client
