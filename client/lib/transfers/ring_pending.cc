#include "client/lib/transfers/ring_pending.h"

#include <algorithm>
#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::client {
namespace {

// A daemon that has gone completes nothing: a caller that only looks learns of it this often.
constexpr std::chrono::milliseconds kLookAtDaemon{20};
// Somebody else may see the end, and take it.
constexpr std::chrono::nanoseconds kLongestPause = std::chrono::milliseconds(10);

}  // namespace

RingPending::RingPending(std::function<void()> canceller, SessionRef session, uint64_t number,
                         SharedRequest request, HandOver hand_over)
    : PendingTransfer({}, std::move(canceller)),
      number_(number),
      session_(std::move(session)),
      request_(std::move(request)),
      hand_over_(std::move(hand_over)) {}

RingPending::~RingPending() {
  if (CheckProcess().ok()) {
    if (session_ != nullptr) session_->ring().Forget(number_);
    return;
  }
  // As the connection does in a child; its locks may be held for ever.
  if (session_ != nullptr) static_cast<void>(new SessionRef(std::move(session_)));
}

void RingPending::Cancel() {
  if (!CheckProcess().ok()) return;
  {
    const MutexLock lock(mutex_);
    cancel_wanted_ = true;
    if (session_ != nullptr) return;
  }
  PendingTransfer::Cancel();
}

void RingPending::Abandon(const Status& why) {
  const MutexLock lock(mutex_);
  if (session_ == nullptr) return;
  session_->ring().Forget(number_);
  session_ = nullptr;
  End(why);
}

bool RingPending::Drive(std::chrono::nanoseconds waited, std::chrono::nanoseconds longest) {
  const SessionRef under_way = Look();
  if (under_way == nullptr) return has_ended();
  if (longest > longest.zero()) {
    under_way->ring().Idle(number_, waited, std::min(longest, kLongestPause));
  }
  return true;
}

SessionRef RingPending::Look() {
  const MutexLock lock(mutex_);
  if (session_ == nullptr) return nullptr;
  RingTransfers& ring = session_->ring();
  switch (ring.Look(number_)) {
    case RingTransfers::Progress::kUnderWay: {
      const Clock::time_point now = Clock::now();
      if (now - looked_at_daemon_ >= kLookAtDaemon) {
        looked_at_daemon_ = now;
        ring.LookForDaemon();
      }
      return session_;
    }
    case RingTransfers::Progress::kGone:
      ring.Forget(number_);
      End(ring.Gone(number_));
      session_ = nullptr;
      return nullptr;
    case RingTransfers::Progress::kEnded:
      Ended();
      return nullptr;
  }
  return nullptr;
}

void RingPending::Ended() {
  const SessionRef session = std::move(session_);
  if (auto info = session->ring().TakeEnd(number_)) return End(*std::move(info));
  if (cancel_wanted_) {
    return End(
        Status(Code::kCancelled, reasons::kCancelled, "cancelled before anything was started"));
  }
  // From here on the loop's thread ends it.
  Status handed = std::exchange(hand_over_, nullptr)(shared_from_this(), std::move(request_));
  if (!handed.ok()) End(std::move(handed));
}

}  // namespace onecopy::client
