#include "client/lib/transfers/transfer_call.h"

#include <utility>

#include "client/lib/calls/wire.h"
#include "client/lib/transfers/print_create.h"
#include "onecopy/reasons.h"

namespace onecopy::client {

using TransferStub = v1::TransferService::Stub;

namespace {

constexpr std::chrono::milliseconds kLongestForRing{1000};

}  // namespace

bool IsOver(const TransferInfo& transfer) {
  return IsFinal(transfer.state) || transfer.state == TransferState::kUnconfirmed;
}

TransferCall::TransferCall(AsyncLoop& loop, std::shared_ptr<PendingTransfer> pending,
                           SharedRequest request, std::optional<v1::CreateTransferRequest> wire,
                           OnRing on_ring)
    : loop_(loop),
      pending_(std::move(pending)),
      request_(std::move(request)),
      wire_(std::move(wire)),
      session_(std::move(on_ring.session)),
      number_(on_ring.number),
      ring_wanted_(on_ring.wanted) {}

TransferCall::TransferCall(AsyncLoop& loop, std::shared_ptr<PendingTransfer> pending, TransferId id)
    : loop_(loop), pending_(std::move(pending)), id_(std::move(id)) {}

void TransferCall::Begin(CallLimit::Clock::time_point asked) {
  asked_ = asked;
  if (number_) {
    phase_ = Phase::kOnRing;
    return loop_.WatchRing(this);
  }
  limit_ = request_ ? connection().deadlines().For(*request_) : connection().deadlines().Find(id_);
  Attach();
}

void TransferCall::Attach() {
  Connection::Attempt attempt = [this] {
    const AsyncLoop::Waits waits(loop_);
    const CallLimit limit(limit_);
    return connection().Try(asked_);
  }();
  if (attempt.session.ok()) {
    if (lost_.ok()) return BeginBy(*std::move(attempt.session));
    lost_ = OkStatus();
    session_ = *std::move(attempt.session);
    Watch();
    if (cancel_wanted_ && canceller_ == nullptr) StartCancelling();
    return;
  }
  if (!attempt.again) {
    return End(lost_.ok() ? attempt.session.status() : connection().Explain(*session_, lost_));
  }
  AttachIn(Connection::kBetweenTries);
}

void TransferCall::AttachIn(std::chrono::milliseconds wait) {
  phase_ = Phase::kAway;
  asked_ = CallLimit::Clock::now();
  alarm_.Set(loop_.queue(), std::chrono::system_clock::now() + wait, static_cast<Event*>(this));
}

void TransferCall::BeginBy(SessionRef session) {
  session_ = std::move(session);
  {
    const AsyncLoop::Waits waits(loop_);
    if (!request_) {
      number_ = session_->ring().Keep(id_);
    } else if (ring_wanted_) {
      // The loop's other calls wait meanwhile. What the ring is not there for in time goes by gRPC.
      const CallLimit limit(CallLimit::Clock::now() + kLongestForRing);
      number_ = session_->ring().Begin(*request_);
    }
  }
  if (number_) {
    phase_ = Phase::kOnRing;
    loop_.WatchRing(this);
  } else if (request_) {
    Create();
  } else {
    Watch();
  }
}

bool TransferCall::LookAtRing() {
  if (ended_) return true;
  switch (session_->ring().Look(*number_)) {
    case RingTransfers::Progress::kUnderWay:
      return false;
    case RingTransfers::Progress::kGone:
      session_->ring().Forget(*number_);
      End(session_->ring().Gone(*number_));
      return true;
    case RingTransfers::Progress::kEnded:
      break;
  }
  phase_ = Phase::kNone;
  if (auto info = session_->ring().TakeEnd(*std::exchange(number_, std::nullopt))) {
    End(*std::move(info));
  } else if (request_) {
    Create();  // refused before a byte moved: gRPC says why, or it works after all
  } else {
    Watch();
  }
  return true;
}

void TransferCall::WaitAtRing(std::chrono::nanoseconds waited) {
  // gRPC's events are seen afterwards, so not for long.
  session_->ring().Idle(*number_, waited, std::chrono::milliseconds(1));
}

void TransferCall::Create() {
  if (cancel_wanted_) {
    return End(
        Status(Code::kCancelled, reasons::kCancelled, "cancelled before anything was started"));
  }
  if (!wire_) {  // what the ring has not carried after all: short
    Result<v1::CreateTransferRequest> printed = PrintCreate(*request_);
    if (!printed.ok()) return End(printed.status());
    wire_ = *std::move(printed);
  }
  const CallLimit limit(limit_);
  context_ = std::make_unique<grpc::ClientContext>();
  session_->Prepare(*context_, Patience::kWorking);
  creation_ =
      session_->stub<TransferStub>().AsyncCreateTransfer(context_.get(), *wire_, loop_.queue());
  wire_.reset();  // gRPC has what it is as bytes
  phase_ = Phase::kCreating;
  creation_->Finish(&reply_, &status_, static_cast<Event*>(this));
}

void TransferCall::OnCreated() {
  phase_ = Phase::kNone;
  if (ended_) return FinishIfUnused();
  if (!status_.ok()) {
    Status failure = connection().Explain(*session_, session_->Decode(status_));
    return End(connection().ExplainEnds(std::move(failure), *request_));
  }
  Result<TransferInfo> transfer = client::Read(reply_);
  if (!transfer.ok() || request_->validate_only) return End(std::move(transfer));
  id_ = transfer->id;
  if (request_->deadline) connection().deadlines().Note(id_, limit_);
  pending_->Update(*transfer);
  if (IsOver(*transfer)) return End(std::move(transfer));
  if (cancel_wanted_) StartCancelling();
  Watch();
}

void TransferCall::Watch() {
  v1::WatchTransferRequest wire;
  wire.set_id(id_.str());
  const CallLimit limit(limit_);
  // These lie in memory of the context that they were made with.
  creation_.reset();
  updates_.reset();
  context_ = std::make_unique<grpc::ClientContext>();
  session_->Prepare(*context_, Patience::kWorking);
  phase_ = Phase::kWatching;
  updates_ = session_->stub<TransferStub>().AsyncWatchTransfer(context_.get(), wire, loop_.queue(),
                                                               static_cast<Event*>(this));
}

void TransferCall::Read() {
  phase_ = Phase::kReading;
  updates_->Read(&reply_, static_cast<Event*>(this));
}

void TransferCall::OnRead() {
  Result<TransferInfo> transfer = client::Read(reply_);
  if (!transfer.ok()) {
    context_->TryCancel();
    return End(transfer.status());
  }
  pending_->Update(*transfer);
  if (IsOver(*transfer)) {
    last_ = *std::move(transfer);
    context_->TryCancel();  // what follows, if anything, is of no interest
  }
}

void TransferCall::OnFinished() {
  phase_ = Phase::kNone;
  if (ended_) return FinishIfUnused();
  if (last_) return End(*std::move(last_));
  const Status failure =
      status_.ok() ? StoppedTelling(session_->Peer(), id_) : session_->Decode(status_);
  if (session_->GoesOnAfter(failure)) {
    lost_ = failure;
    // After the same news for other transfers, so that one attempt serves all.
    return AttachIn(std::chrono::milliseconds(0));
  }
  End(Unanswered(connection().ExplainTransfer(*session_, failure), id_));
}

void TransferCall::Happened(bool ok) {
  switch (phase_) {
    case Phase::kCreating:
      return OnCreated();
    case Phase::kReading:
      if (ok && !ended_) OnRead();
      [[fallthrough]];
    case Phase::kWatching:
      if (ok && !ended_ && !last_) return Read();
      phase_ = Phase::kFinishing;
      return updates_->Finish(&status_, static_cast<Event*>(this));
    case Phase::kFinishing:
      return OnFinished();
    case Phase::kAway:
      phase_ = Phase::kNone;
      if (ended_) return FinishIfUnused();
      // A transfer that was begun is cancelled once the daemon is back.
      if (cancel_wanted_ && id_.empty()) return Create();
      return Attach();
    case Phase::kNone:
    case Phase::kOnRing:
      return;  // neither has an event
  }
}

void TransferCall::Cancel() {
  if (ended_ || std::exchange(cancel_wanted_, true)) return;
  // Before that, OnCreated does it.
  if (phase_ == Phase::kWatching || phase_ == Phase::kReading) StartCancelling();
}

void TransferCall::StartCancelling() {
  canceller_ = std::make_unique<Canceller>(*this);
  canceller_->Begin();
}

void TransferCall::Canceller::Begin() {
  v1::CancelTransferRequest wire;
  wire.set_id(call_.id_.str());
  session_->Prepare(context_, Patience::kQuick);
  reader_ =
      session_->stub<TransferStub>().AsyncCancelTransfer(&context_, wire, call_.loop_.queue());
  reader_->Finish(&reply_, &status_, static_cast<Event*>(this));
}

void TransferCall::Canceller::Happened(bool /*ok*/) {
  // Whether it worked, the updates tell; a daemon that is gone ends those, too.
  TransferCall& call = call_;
  const bool watched = call.phase_ == Phase::kWatching || call.phase_ == Phase::kReading;
  const bool again = watched && session_ != call.session_;  // it went to a daemon that has ended
  call.canceller_.reset();                                  // and this with it
  if (call.ended_) return call.FinishIfUnused();
  if (again) call.StartCancelling();
}

void TransferCall::Abandon(const Status& why) {
  if (ended_) return;
  if (context_ != nullptr) context_->TryCancel();
  if (phase_ == Phase::kAway) alarm_.Cancel();
  if (number_) session_->ring().Forget(*number_);
  End(why);
}

void TransferCall::End(Result<TransferInfo> outcome) {
  ended_ = true;
  if (phase_ == Phase::kOnRing) phase_ = Phase::kNone;
  if (canceller_ != nullptr) canceller_->Stop();
  pending_->End(std::move(outcome));
  FinishIfUnused();
}

void TransferCall::FinishIfUnused() {
  if (phase_ == Phase::kNone && canceller_ == nullptr) loop_.Finished(this);
}

}  // namespace onecopy::client
