// The daemon as a service: signals, and what systemd is told.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "transport/os/event_loop.h"

namespace onecopy {

// Blocks the signals that end the daemon, for all threads that are started afterwards. First thing
// in main.
void BlockSignals();

// Waits for one of them: SIGTERM or SIGINT.
int WaitForSignal();
// Runs `on_signal` on a thread of its own at the next one; that thread ends with the process.
void OnNextSignal(std::function<void()> on_signal);

// Each does nothing where no systemd listens.
void TellReady(const std::string& status);
void TellStopping(std::chrono::milliseconds at_most);
// Pats systemd's watchdog from `loop`, so that it bites when that loop no longer turns.
void BeginWatchdog(os::EventLoop& loop);

}  // namespace onecopy
