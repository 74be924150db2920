#include "client/lib/transfers/async_loop.h"

#include <grpc/support/time.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "client/lib/transfers/ring_pending.h"
#include "client/lib/transfers/transfer_call.h"
#include "onecopy/reasons.h"

namespace onecopy::client {
namespace {

Status Closed() {
  return {Code::kCancelled, reasons::kCancelled,
          "the Client was destroyed; its running transfers continue, unless they use memory that "
          "it registered"};
}

}  // namespace

void AsyncLoop::Alarm::Happened(bool /*ok*/) { loop.TakeInbox(); }

AsyncLoop::AsyncLoop(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}

AsyncLoop::~AsyncLoop() {
  if (shut_down_) return;
  // The thread never ran.
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) continue;
}

Status AsyncLoop::Open() {
  const MutexLock lock(mutex_);
  if (closing_) return Closed();
  if (thread_.joinable()) return OkStatus();
  try {
    thread_ = std::thread([self = shared_from_this()] { self->Run(); });
  } catch (const std::system_error& error) {
    return {Code::kResourceExhausted, reasons::kQuota,
            std::string("starting the thread that works for futures: ") + error.what(),
            "raise the limit on threads (ulimit -u)"};
  }
  return OkStatus();
}

Status AsyncLoop::CheckOpen() {
  const MutexLock lock(mutex_);
  return closing_ ? Closed() : OkStatus();
}

Status AsyncLoop::Add(std::shared_ptr<TransferCall> call) {
  const MutexLock lock(mutex_);
  if (closing_) return Closed();
  added_.push_back({std::move(call), Clock::now()});
  Wake();
  return OkStatus();
}

Status AsyncLoop::Hold(std::shared_ptr<TransferCall> call) {
  const MutexLock lock(mutex_);
  if (closing_) return Closed();
  held_.insert(std::move(call));
  return OkStatus();
}

void AsyncLoop::Release(const std::shared_ptr<TransferCall>& call) {
  const MutexLock lock(mutex_);
  if (held_.erase(call) == 0) return;
  added_.push_back({call, Clock::now()});
  Wake();
}

void AsyncLoop::Forget(const std::shared_ptr<TransferCall>& call) {
  const MutexLock lock(mutex_);
  held_.erase(call);
}

Result<std::shared_ptr<StreamOrders>> AsyncLoop::Streams(std::shared_ptr<const shim::CudaApi> api) {
  const MutexLock lock(mutex_);
  if (streams_ == nullptr) {
    ONECOPY_ASSIGN_OR_RETURN(streams_, StreamOrders::Make(std::move(api)));
  }
  return streams_;
}

Status AsyncLoop::AddOnRing(const std::shared_ptr<RingPending>& pending) {
  const MutexLock lock(mutex_);
  if (closing_) return Closed();
  if (on_ring_pending_.size() >= sweep_pending_at_) {
    std::erase_if(on_ring_pending_, [](const auto& each) { return each.expired(); });
    sweep_pending_at_ = std::max(kLeastSweep, 2 * on_ring_pending_.size());
  }
  on_ring_pending_.push_back(pending);
  return OkStatus();
}

void AsyncLoop::Cancel(const std::shared_ptr<TransferCall>& call) {
  const MutexLock lock(mutex_);
  if (closing_) return;
  (held_.erase(call) != 0 ? dropped_ : cancelled_).push_back(call);
  Wake();
}

void AsyncLoop::Wake() {
  if (std::exchange(alarm_set_, true)) return;
  alarm_.alarm.Set(&queue_, gpr_time_0(GPR_CLOCK_REALTIME), static_cast<Event*>(&alarm_));
}

void AsyncLoop::Close() {
  std::thread thread;
  std::vector<std::weak_ptr<RingPending>> on_ring;
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    on_ring.swap(on_ring_pending_);
    for (const auto& call : held_) added_.push_back({call, Clock::now()});
    held_.clear();
    if (thread_.joinable()) {
      Wake();
      thread = std::move(thread_);
    }
  }
  for (const auto& each : on_ring) {
    if (const auto pending = each.lock()) pending->Abandon(Closed());
  }
  if (!thread.joinable()) return;
  // Else it holds the loop until it is done.
  const bool joins = thread.get_id() != std::this_thread::get_id() && AwaitEnd();
  joins ? thread.join() : thread.detach();
}

bool AsyncLoop::AwaitEnd() {
  const Clock::time_point until = Clock::now() + kTeardown;
  const MutexLock lock(mutex_);
  while (!over_) {
    if (!waits_) {
      changed_.Wait(mutex_);  // for callbacks, as long as they take
    } else if (!changed_.WaitUntil(mutex_, until) && waits_) {
      return false;
    }
  }
  return true;
}

void AsyncLoop::NoteWaits(bool waits) {
  const MutexLock lock(mutex_);
  waits_ = waits;
  changed_.NotifyAll();
}

void AsyncLoop::End(std::shared_ptr<AsyncLoop> loop) {
  if (loop->connection_->CheckProcess().ok()) return loop->Close();
  // Its thread is not here, and its locks may be held for ever.
  static_cast<void>(new std::shared_ptr<AsyncLoop>(std::move(loop)));
}

void AsyncLoop::TakeInbox() {
  std::vector<Added> added;
  std::vector<std::shared_ptr<TransferCall>> cancelled;
  std::vector<std::shared_ptr<TransferCall>> dropped;
  bool closing = false;
  {
    const MutexLock lock(mutex_);
    alarm_set_ = false;
    added.swap(added_);
    cancelled.swap(cancelled_);
    dropped.swap(dropped_);
    closing = closing_;
  }
  for (auto& [call, when] : added) {
    TransferCall& begins = *call;
    calls_.emplace(&begins, std::move(call));
    if (closing) {
      begins.Abandon(Closed());
    } else {
      begins.Begin(when);
    }
  }
  for (auto& call : dropped) {
    TransferCall& ends = *call;
    calls_.emplace(&ends, std::move(call));
    ends.Abandon({Code::kCancelled, reasons::kCancelled, "cancelled before it began"});
  }
  for (const auto& call : cancelled) call->Cancel();
  if (!closing || std::exchange(abandoned_, true)) return;
  std::vector<TransferCall*> all;  // as callbacks may look at the loop
  for (const auto& [call, owner] : calls_) all.push_back(call);
  for (TransferCall* call : all) call->Abandon(Closed());
}

void AsyncLoop::WatchRing(TransferCall* call) {
  if (on_ring_.empty()) ring_moved_ = Clock::now();
  on_ring_.push_back(call);
}

void AsyncLoop::LookAtRings(bool may_wait) {
  if (on_ring_.empty()) return;
  std::vector<TransferCall*> waiting;
  waiting.swap(on_ring_);  // what ends may begin others
  const size_t before = waiting.size();
  std::erase_if(waiting, [](TransferCall* call) { return call->LookAtRing(); });
  const bool moved = waiting.size() != before;
  on_ring_.insert(on_ring_.end(), waiting.begin(), waiting.end());
  if (moved) ring_moved_ = Clock::now();
  if (moved || !may_wait || waiting.empty()) return;
  waiting.front()->WaitAtRing(Clock::now() - ring_moved_);
}

void AsyncLoop::Sweep() {
  for (TransferCall* call : std::exchange(finished_, {})) calls_.erase(call);
  if (!abandoned_ || !calls_.empty() || std::exchange(shut_down_, true)) return;
  queue_.Shutdown();
}

void AsyncLoop::Run() {
  PendingTransfer::RunsCallbacks(this);
  void* tag = nullptr;
  bool ok = false;
  for (;;) {
    const gpr_timespec until =
        on_ring_.empty() ? gpr_inf_future(GPR_CLOCK_REALTIME) : gpr_time_0(GPR_CLOCK_REALTIME);
    const auto next = queue_.AsyncNext(&tag, &ok, until);
    if (next == grpc::CompletionQueue::SHUTDOWN) break;
    if (next == grpc::CompletionQueue::GOT_EVENT) static_cast<Event*>(tag)->Happened(ok);
    LookAtRings(next == grpc::CompletionQueue::TIMEOUT);
    Sweep();
  }
  const MutexLock lock(mutex_);
  over_ = true;
  changed_.NotifyAll();
}

}  // namespace onecopy::client
