// One thread tells another that something has happened.
#pragma once

#include "transport/core/base/mutex.h"

namespace onecopy::testing {

// Set once. May be destroyed as soon as Wait has returned, also while Set is on its last steps,
// which a promise may not.
class Event {
 public:
  void Set() {
    const MutexLock lock(mutex_);
    set_ = true;
    changed_.NotifyAll();
  }
  void Wait() {
    const MutexLock lock(mutex_);
    while (!set_) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  Condition changed_;
  bool set_ ONECOPY_GUARDED_BY(mutex_) = false;
};

}  // namespace onecopy::testing
