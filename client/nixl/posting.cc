#include "client/nixl/posting.h"

#include <algorithm>
#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::nixl {
namespace {

Status Cancelled() {
  return {Code::kCancelled, reasons::kCancelled, "cancelled before anything was started"};
}

}  // namespace

Posting::Posting(Session& session, Workers& workers, const Requests& requests,
                 Afterwards afterwards)
    : session_(session),
      workers_(workers),
      left_(requests.size()),
      afterwards_(std::move(afterwards)),
      told_of_ends_(afterwards_.then != nullptr) {
  for (const auto& request : requests) parts_.push_back({request, {}, false, false});
}

std::shared_ptr<Posting> Posting::Start(Session& session, Workers& workers,
                                        const Requests& requests, Afterwards afterwards) {
  std::shared_ptr<Posting> posting(new Posting(session, workers, requests, std::move(afterwards)));
  const std::shared_ptr<Client> client = session.Ready();
  const MutexLock lock(posting->mutex_);
  for (size_t i = 0; i < requests.size() && !posting->done_; ++i) {
    if (client != nullptr) {
      posting->Begin(*client, posting->parts_[i]);
    } else {
      posting->BeginByWorker(i);
    }
  }
  if (requests.empty()) posting->Follow();
  return posting;
}

void Posting::Begin(Client& client, Part& part) {
  if (cancelled_) return Ended(part, Cancelled());
  TransferCallbacks callbacks;
  if (told_of_ends_) {
    callbacks.on_end = [self = shared_from_this()](const auto&) { self->Advance(); };
  }
  auto future = client.RunTransferAsync(part.request, std::move(callbacks));
  if (!future.ok()) return Ended(part, session_.Note(future.status()));
  part.future = *std::move(future);
}

void Posting::BeginByWorker(size_t number) {
  const Status begun = workers_.Run([self = shared_from_this(), number] {
    {
      const MutexLock lock(self->mutex_);
      if (self->done_) return;
    }
    const auto client = self->session_.Get();
    const MutexLock lock(self->mutex_);
    if (self->done_) return;
    Part& part = self->parts_[number];
    if (client.ok()) {
      self->Begin(**client, part);
    } else {
      self->Ended(part, client.status());
    }
    // A waiting thread can now wait for the transfer itself.
    self->ended_.NotifyAll();
  });
  if (!begun.ok()) Ended(parts_[number], begun);
}

void Posting::Advance() {
  const MutexLock lock(mutex_);
  Look();
}

void Posting::Look() {
  for (size_t i = 0; i < parts_.size() && !done_; ++i) {
    Part& part = parts_[i];
    if (part.ended || !part.future.valid() || !part.future.done()) continue;
    const Result<TransferInfo> moved = std::exchange(part.future, {}).Get();
    const Status status = session_.Note(moved.ok() ? OutcomeOf(*moved) : moved.status());
    // The daemon was restarted since the last call: nothing has begun, and Get registers again.
    if (status.reason() == reasons::kBufferLost && !std::exchange(part.again, true)) {
      BeginByWorker(i);
    } else {
      Ended(part, status);
    }
  }
}

void Posting::Ended(Part& part, const Status& status) {
  part.ended = true;
  if (failure_.ok() && !status.ok()) {
    failure_ = status;
    CancelLocked();
  }
  if (--left_ == 0) Follow();
}

void Posting::Follow() {
  std::function<Status()> next = std::exchange(afterwards_.then, nullptr);
  if (!failure_.ok()) {
    next = nullptr;
    if (afterwards_.judge != nullptr) {
      next = [judge = std::exchange(afterwards_.judge, nullptr), failure = failure_] {
        return judge(failure);
      };
    }
  }
  if (next == nullptr) return Done();
  const Status begun = workers_.Run([self = shared_from_this(), next = std::move(next)] {
    const Status said = next();
    const MutexLock lock(self->mutex_);
    if (self->done_) return;
    self->failure_ = said;
    self->Done();
  });
  if (begun.ok()) return;
  if (failure_.ok()) failure_ = begun;
  Done();
}

void Posting::Done() {
  done_ = true;
  parts_.clear();
  ended_.NotifyAll();
}

std::optional<Status> Posting::Outcome() {
  const MutexLock lock(mutex_);
  Look();
  if (!done_) return std::nullopt;
  return failure_;
}

void Posting::Cancel() {
  const MutexLock lock(mutex_);
  CancelLocked();
}

void Posting::CancelLocked() {
  cancelled_ = true;
  for (const Part& part : parts_) {
    if (part.future.valid()) part.future.Cancel();
  }
}

bool Posting::WaitForEnd(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (true) {
    TransferFuture waits_for;
    {
      const MutexLock lock(mutex_);
      Look();
      if (done_) return true;
      if (std::chrono::steady_clock::now() >= deadline) return false;
      const auto runs = std::find_if(parts_.begin(), parts_.end(),
                                     [](const Part& part) { return part.future.valid(); });
      if (runs == parts_.end()) {
        static_cast<void>(ended_.WaitUntil(mutex_, deadline));
        continue;
      }
      waits_for = runs->future;
    }
    static_cast<void>(waits_for.WaitFor(deadline - std::chrono::steady_clock::now()));
  }
}

void Posting::Abandon() {
  const MutexLock lock(mutex_);
  if (done_) return;
  failure_ = Cancelled();
  afterwards_ = {};
  Done();
}

}  // namespace onecopy::nixl
