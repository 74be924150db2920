// Takes turns at what may wait for the daemon.
#pragma once

#include "client/lib/calls/call_limit.h"
#include "transport/core/base/mutex.h"

namespace onecopy::client {

// Like a mutex, but a thread waits for it no longer than its CallLimit allows. Thread-safe.
class Turn {
 public:
  // One thread's turn, until this is destroyed.
  class Held {
   public:
    explicit Held(Turn& turn) : turn_(turn), held_(turn.Take()) {}
    ~Held() {
      if (held_) turn_.GiveBack();
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

    // False: the thread's CallLimit has passed, and it is another thread's turn.
    explicit operator bool() const { return held_; }

   private:
    Turn& turn_;
    const bool held_;
  };

 private:
  bool Take();
  void GiveBack();

  Mutex mutex_;
  Condition given_back_;
  bool taken_ ONECOPY_GUARDED_BY(mutex_) = false;
};

}  // namespace onecopy::client
