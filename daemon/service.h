// The daemon as a service: signals, and what systemd is told.
#pragma once

#include <signal.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "transport/os/threads/event_loop.h"

namespace onecopy {

// Blocks the signals that steer the daemon, SIGTERM, SIGINT and SIGHUP, for all threads that are
// started afterwards. First thing in main.
void BlockSignals();

// Has malloc keep little of what is freed. By itself it takes larger blocks from its heaps, and
// keeps more of these, the larger the blocks are that were freed once: a flood of large requests
// would leave a hundred MiB. Before there are threads.
void KeepLittleFreeMemory();

// What each signal does, as it was when this was made. Vendors' libraries put handlers of their own
// in the place of others' when they are loaded, on SIGHUP and on those of crashes; a daemon ends as
// its operator and its service manager expect.
class SignalHandlers {
 public:
  SignalHandlers();
  // Undoes what was done since, and returns the names of the signals whose handlers were others'.
  std::vector<std::string> Restore() const;

 private:
  std::vector<struct sigaction> actions_;  // by signal
};

// Writes to standard error, unless what reads it has had no room for a second.
void SayBeforeEnd(const std::string& text);

// Waits for one of them, at most so long: 0 where none has come.
int WaitForSignal(std::chrono::milliseconds at_most);
// Runs `on_signal` on a thread of its own at the next SIGTERM or SIGINT; that thread ends with the
// process. Does nothing where the process may have no more threads.
void OnNextSignal(std::function<void()> on_signal);

// Each does nothing where no systemd listens.
void TellReady(const std::string& status);
void TellReloading();  // TellReady follows
void TellStopping(std::chrono::milliseconds at_most);
// Pats systemd's watchdog from `loop`, so that it bites when that loop no longer turns.
void BeginWatchdog(os::EventLoop& loop);

}  // namespace onecopy
