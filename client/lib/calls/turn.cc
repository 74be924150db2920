#include "client/lib/calls/turn.h"

namespace onecopy::client {

bool Turn::Take() {
  const CallLimit::Time limit = CallLimit::Current();
  const MutexLock lock(mutex_);
  while (taken_) {
    if (!limit) {
      given_back_.Wait(mutex_);
    } else if (!given_back_.WaitUntil(mutex_, *limit) && taken_) {
      return false;
    }
  }
  taken_ = true;
  return true;
}

void Turn::GiveBack() {
  const MutexLock lock(mutex_);
  taken_ = false;
  given_back_.NotifyOne();
}

}  // namespace onecopy::client
