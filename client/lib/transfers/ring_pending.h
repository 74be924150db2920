// A future of a transfer on the ring that no thread works for.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "client/lib/session/session.h"
#include "client/lib/transfers/pending_transfer.h"
#include "client/lib/transfers/transfer_call.h"
#include "transport/core/base/mutex.h"

namespace onecopy::client {

// The thread that asks whether the transfer has ended looks at the ring itself. So it
// wakes no thread of this process. Thread-safe.
class RingPending final : public PendingTransfer {
 public:
  // Has the loop's thread work for a transfer that the ring has refused: gRPC says why, or it works
  // after all.
  using HandOver = std::function<Status(std::shared_ptr<PendingTransfer>, SharedRequest)>;

  // `number` is under way on the session's ring.
  RingPending(std::function<void()> canceller, SessionRef session, uint64_t number,
              SharedRequest request, HandOver hand_over);
  ~RingPending() override;

  void Cancel() override;
  // Unless it has ended: ends it with `why` now, and releases the session.
  void Abandon(const Status& why);

 private:
  using Clock = std::chrono::steady_clock;

  bool Drive(std::chrono::nanoseconds waited, std::chrono::nanoseconds longest) override;
  // What has become of it. The session, while it is under way.
  SessionRef Look();
  void Ended() ONECOPY_REQUIRES(mutex_);

  const uint64_t number_;
  Mutex mutex_;
  SessionRef session_ ONECOPY_GUARDED_BY(mutex_);  // null: over, or handed over
  SharedRequest request_ ONECOPY_GUARDED_BY(mutex_);
  HandOver hand_over_ ONECOPY_GUARDED_BY(mutex_);
  bool cancel_wanted_ ONECOPY_GUARDED_BY(mutex_) = false;
  Clock::time_point looked_at_daemon_ ONECOPY_GUARDED_BY(mutex_) = Clock::now();
};

}  // namespace onecopy::client
