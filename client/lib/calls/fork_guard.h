// What becomes of this library in a process that forks. gRPC has threads and locks of its own, and
// a child has neither the threads nor a way to free the locks: whatever calls gRPC there may hang,
// and whatever closes a channel there shuts the parent's socket down, as the two are one open file.
#pragma once

#include <cstdint>

#include "onecopy/status.h"

namespace onecopy::client {

// Counts forks, by pthread_atfork, from the moment on that this library is loaded. No lock is
// taken; any thread.
class ForkGuard {
 public:
  // Which of a line of processes this one is: an object that was made in another generation is its
  // parent's.
  static uint64_t Generation();

  // Whether gRPC can be used in this process: FAILED_PRECONDITION (FORKED) where one of its
  // ancestors used it and then forked, without a new program.
  static Status CheckProcess();
  // The same of an object made in that generation, which is a `what`.
  static Status CheckObject(uint64_t made_in, const char* what = "client");

  // gRPC is about to be used.
  static void NoteUse();
};

}  // namespace onecopy::client
