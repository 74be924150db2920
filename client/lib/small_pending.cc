#include "client/lib/small_pending.h"

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

SmallPending::SmallPending(std::function<void()> canceller, SessionRef session, uint64_t number,
                           SharedRequest request, HandOver hand_over)
    : PendingTransfer({}, std::move(canceller)),
      number_(number),
      session_(std::move(session)),
      request_(std::move(request)),
      hand_over_(std::move(hand_over)) {}

SmallPending::~SmallPending() {
  if (CheckProcess().ok()) {
    if (session_ != nullptr) session_->small().Forget(number_);
    return;
  }
  // As the connection does in a child; its locks may be held for ever.
  if (session_ != nullptr) static_cast<void>(new SessionRef(std::move(session_)));
}

void SmallPending::Cancel() {
  if (!CheckProcess().ok()) return;
  {
    const MutexLock lock(mutex_);
    cancel_wanted_ = true;
    if (session_ != nullptr) return;
  }
  PendingTransfer::Cancel();
}

void SmallPending::Abandon(const Status& why) {
  const MutexLock lock(mutex_);
  if (session_ == nullptr) return;
  session_->small().Forget(number_);
  session_ = nullptr;
  End(why);
}

bool SmallPending::Drive(std::chrono::nanoseconds waited, std::chrono::nanoseconds longest) {
  const SessionRef under_way = Look();
  if (under_way == nullptr) return has_ended();
  if (longest > longest.zero()) {
    under_way->small().Idle(number_, waited, std::min(longest, kLongestPause));
  }
  return true;
}

SessionRef SmallPending::Look() {
  const MutexLock lock(mutex_);
  if (session_ == nullptr) return nullptr;
  SmallTransfers& small = session_->small();
  switch (small.Look(number_)) {
    case SmallTransfers::Progress::kUnderWay: {
      const Clock::time_point now = Clock::now();
      if (now - looked_at_daemon_ >= kLookAtDaemon) {
        looked_at_daemon_ = now;
        small.LookForDaemon();
      }
      return session_;
    }
    case SmallTransfers::Progress::kGone:
      small.Forget(number_);
      End(small.Gone());
      session_ = nullptr;
      return nullptr;
    case SmallTransfers::Progress::kEnded:
      Ended();
      return nullptr;
  }
  return nullptr;
}

void SmallPending::Ended() {
  const SessionRef session = std::move(session_);
  if (auto info = session->small().TakeEnd(number_)) return End(*std::move(info));
  if (cancel_wanted_) {
    return End(
        Status(Code::kCancelled, reasons::kCancelled, "cancelled before anything was started"));
  }
  // From here on the loop's thread ends it.
  Status handed = std::exchange(hand_over_, nullptr)(shared_from_this(), std::move(request_));
  if (!handed.ok()) End(std::move(handed));
}

}  // namespace onecopy::client
