// The limits that a process needs to serve, and warnings if the system does not grant them.
#pragma once

#include <cstdint>

#include "onecopy/status.h"

namespace onecopy {

// RESOURCE_EXHAUSTED where this process may open too few files to begin at all.
Status CheckDescriptors();

// While it lives, an exception that nothing takes (no thread, no descriptor, no memory available)
// and a library that gives up (abort) end the process with a message, which names the limits of
// this process, and the exit status of RESOURCE_EXHAUSTED. Nothing is unwound: gRPC waits for ever
// for threads that it could not make. One at a time; gone once the daemon serves, for from then on
// they mean something else.
class StartupGuard {
 public:
  StartupGuard();
  ~StartupGuard();
  StartupGuard(const StartupGuard&) = delete;
  StartupGuard& operator=(const StartupGuard&) = delete;
};

// Logs a warning for each limit that makes the daemon do less, or slower, than it could: it serves
// anyway. `slot_bytes`: of all staging slots together, which it would lock in memory.
void TellOwnLimits(uint64_t slot_bytes);

}  // namespace onecopy
