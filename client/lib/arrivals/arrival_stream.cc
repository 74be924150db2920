#include "client/lib/arrivals/arrival_stream.h"

#include <algorithm>
#include <utility>

#include "client/lib/calls/wire.h"
#include "onecopy/reasons.h"

namespace onecopy::client {
namespace {

// As many are acknowledged together while others wait to be taken.
constexpr uint64_t kTogether = 64;

}  // namespace

Result<std::shared_ptr<ArrivalStream>> ArrivalStream::Open(SessionRef session,
                                                           const std::string& buffer) {
  auto stream = std::make_shared<ArrivalStream>(session);
  stream->Begin(buffer);
  const CallLimit limit(CallLimit::Clock::now() + session->timeout());
  const MutexLock lock(stream->mutex_);
  while (!stream->begun_ && !stream->end_) {
    if (stream->changed_.WaitUntil(stream->mutex_, *CallLimit::Current())) continue;
    return Status(Code::kDeadlineExceeded, reasons::kDeadline,
                  session->Peer() + " did not start the watch within " +
                      std::to_string(session->timeout().count()) + " ms",
                  "its log says what keeps it busy");
  }
  if (!stream->begun_) return *stream->end_;
  return stream;
}

void ArrivalStream::Begin(const std::string& buffer) {
  session_->Prepare(context_, Patience::kWorking);
  request_.set_buffer(buffer);
  {
    const MutexLock lock(mutex_);
    started_ = true;
  }
  session_->stub<v1::ArrivalService::Stub>().async()->WatchArrivals(&context_, &request_, this);
  StartRead(&response_);
  StartCall();
}

ArrivalStream::~ArrivalStream() {
  context_.TryCancel();
  const MutexLock lock(mutex_);
  if (acknowledging_) call_->context.TryCancel();
  while ((started_ && !done_) || acknowledging_) changed_.Wait(mutex_);
}

void ArrivalStream::OnReadDone(bool ok) {
  if (!ok) return;
  {
    const MutexLock lock(mutex_);
    begun_ = true;
    watch_ = response_.watch();
    missed_ += response_.missed();
    for (const v1::Arrival& message : response_.arrivals()) {
      Result<Arrival> arrival = Read(message);
      if (arrival.ok()) received_.push_back(std::move(*arrival));
    }
    changed_.NotifyAll();
  }
  StartRead(&response_);
}

void ArrivalStream::OnDone(const grpc::Status& status) {
  const MutexLock lock(mutex_);
  if (!end_) {
    end_ = status.ok() ? Status(Code::kUnavailable, reasons::kDaemonUnreachable,
                                session_->Peer() + " stopped reporting arrivals")
                       : session_->Decode(status);
  }
  done_ = true;
  changed_.NotifyAll();
}

v1::AcknowledgeArrivalsRequest ArrivalStream::AllTaken() {
  acknowledged_ = taken_;
  v1::AcknowledgeArrivalsRequest request;
  request.set_watch(watch_);
  request.set_count(taken_);
  return request;
}

ArrivalStream::Acknowledgement* ArrivalStream::Due() {
  const uint64_t due = taken_ - acknowledged_;
  if (end_ || acknowledging_ || due == 0) return nullptr;
  // With nothing else to take, the daemon may be waiting for room.
  if (due < kTogether && !received_.empty()) return nullptr;
  call_ = std::make_unique<Acknowledgement>();
  call_->request = AllTaken();
  acknowledging_ = true;
  return call_.get();
}

// Nobody waits for it. Where it fails the watch has ended, which is told by that.
void ArrivalStream::Start(Acknowledgement& call) {
  session_->Prepare(call.context, Patience::kQuick);
  session_->stub<v1::ArrivalService::Stub>().async()->AcknowledgeArrivals(
      &call.context, &call.request, &call.reply, [this](const grpc::Status&) {
        const MutexLock lock(mutex_);
        acknowledging_ = false;
        changed_.NotifyAll();
      });
}

Result<ArrivalBatch> ArrivalStream::Take(size_t most) {
  Acknowledgement* due = nullptr;
  ArrivalBatch batch;
  {
    const MutexLock lock(mutex_);
    if (received_.empty() && missed_ == 0 && end_) return *end_;
    due = Due();
    batch.missed = std::exchange(missed_, 0);
    const size_t count = std::min(most, received_.size());
    batch.arrivals.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      batch.arrivals.push_back(std::move(received_.front()));
      received_.pop_front();
    }
    taken_ += count;
  }
  if (due != nullptr) Start(*due);
  return batch;
}

Status ArrivalStream::Await(const std::stop_token& stop,
                            std::optional<std::chrono::steady_clock::time_point> until) {
  const std::stop_callback on_stop(stop, [this] {
    const MutexLock lock(mutex_);
    changed_.NotifyAll();
  });
  MutexLock lock(mutex_);
  for (;;) {
    // Again and again: what was taken while one was under way is due after it.
    if (Acknowledgement* const due = Due(); due != nullptr) {
      lock.Unlock();
      Start(*due);
      lock.Lock();
    }
    if (Something()) return OkStatus();
    if (stop.stop_requested()) return {Code::kCancelled, reasons::kCancelled, "cancelled"};
    if (!until) {
      changed_.Wait(mutex_);
    } else if (!changed_.WaitUntil(mutex_, *until) && !Something()) {
      return {Code::kDeadlineExceeded, reasons::kDeadline, "nothing has arrived in time"};
    }
  }
}

Status ArrivalStream::Close() {
  v1::AcknowledgeArrivalsRequest request;
  {
    const MutexLock lock(mutex_);
    const bool told = end_.has_value() || acknowledged_ == taken_;
    if (!told) request = AllTaken();
    end_ = Status(Code::kFailedPrecondition, reasons::kBadArgument, "the watch was closed",
                  "watch again: Client::WatchArrivals");
    received_.clear();
    missed_ = 0;
    changed_.NotifyAll();
    // One that is under way comes before the end of the watch, too.
    while (acknowledging_ && !done_) changed_.Wait(mutex_);
    if (told) {
      context_.TryCancel();
      return OkStatus();
    }
  }
  const Status acknowledged =
      session_->Call(&v1::ArrivalService::Stub::AcknowledgeArrivals, request, Patience::kQuick)
          .status();
  context_.TryCancel();
  return acknowledged;
}

}  // namespace onecopy::client
