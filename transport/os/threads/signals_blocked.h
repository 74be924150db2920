// Keeps the program's signals away from threads that a library starts.
#pragma once

#include <csignal>

namespace onecopy::os {

// While it lives, the thread takes no signals that another one can take, and neither will threads
// that it starts: programs do not expect to be interrupted on threads that they did not start. What
// a thread itself causes (SIGSEGV, SIGBUS, …) stays open, or the kernel ends the process without
// asking any handler.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace onecopy::os
