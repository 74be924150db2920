#include "daemon/service.h"

#include <pthread.h>
#include <signal.h>
#include <systemd/sd-daemon.h>

#include <cstdint>
#include <thread>

namespace onecopy {
namespace {

sigset_t EndingSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

void Pat(os::EventLoop& loop, os::Clock::duration pause) {
  ::sd_notify(0, "WATCHDOG=1");
  loop.RunAfter(pause, [&loop, pause] { Pat(loop, pause); });
}

}  // namespace

void BlockSignals() {
  const sigset_t set = EndingSignals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);  // a peer that has gone is an error of the write, not of the process
}

int WaitForSignal() {
  const sigset_t set = EndingSignals();
  int signal = 0;
  while (::sigwait(&set, &signal) != 0) {
  }
  return signal;
}

void OnNextSignal(std::function<void()> on_signal) {
  std::thread([on_signal = std::move(on_signal)] {
    WaitForSignal();
    on_signal();
  }).detach();
}

void TellReady(const std::string& status) { ::sd_notifyf(0, "READY=1\nSTATUS=%s", status.c_str()); }

void TellStopping(std::chrono::milliseconds at_most) {
  const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(at_most).count();
  ::sd_notifyf(0, "STOPPING=1\nSTATUS=Waiting for running transfers\nEXTEND_TIMEOUT_USEC=%lld",
               static_cast<long long>(microseconds));
}

void BeginWatchdog(os::EventLoop& loop) {
  uint64_t microseconds = 0;
  if (::sd_watchdog_enabled(0, &microseconds) <= 0) return;
  const auto pause = std::chrono::microseconds(microseconds / 3);
  loop.Post([&loop, pause] { Pat(loop, pause); });
}

}  // namespace onecopy
