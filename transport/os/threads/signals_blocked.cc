#include "transport/os/threads/signals_blocked.h"

#include <pthread.h>

#include <initializer_list>

namespace onecopy::os {

SignalsBlocked::SignalsBlocked() {
  sigset_t most;
  ::sigfillset(&most);
  for (const int caused : {SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP}) {
    ::sigdelset(&most, caused);
  }
  ::pthread_sigmask(SIG_BLOCK, &most, &before_);
}

SignalsBlocked::~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace onecopy::os
