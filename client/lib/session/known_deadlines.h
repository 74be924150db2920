// The deadlines of transfers that this client has started.
#pragma once

#include <map>

#include "client/lib/calls/call_limit.h"
#include "onecopy/transfer.h"
#include "transport/core/base/mutex.h"

namespace onecopy::client {

// Thread-safe.
class KnownDeadlines {
 public:
  // Of one that is asked for now; a part has its series'.
  CallLimit::Time For(const TransferRequest& request) const;
  // The daemon has accepted this transfer. Without a limit this does nothing.
  void Note(const TransferId& id, const CallLimit::Time& limit);
  CallLimit::Time Find(const TransferId& id) const;

 private:
  static constexpr size_t kSweepAt = 1024;  // what is long past, once there are more

  mutable Mutex mutex_;
  std::map<TransferId, CallLimit::Clock::time_point> limits_ ONECOPY_GUARDED_BY(mutex_);
  size_t sweep_at_ ONECOPY_GUARDED_BY(mutex_) = kSweepAt;
};

}  // namespace onecopy::client
