#include "daemon/service.h"

#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <system_error>
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

sigset_t SteeringSignals() {
  sigset_t set = EndingSignals();
  sigaddset(&set, SIGHUP);
  return set;
}

void Pat(os::EventLoop& loop, os::Clock::duration pause) {
  ::sd_notify(0, "WATCHDOG=1");
  loop.RunAfter(pause, [&loop, pause] { Pat(loop, pause); });
}

}  // namespace

void BlockSignals() {
  const sigset_t set = SteeringSignals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);  // a peer that has gone is an error of the write, not of the process
  ::signal(SIGXFSZ, SIG_IGN);  // likewise memory or a file longer than RLIMIT_FSIZE allows
}

void KeepLittleFreeMemory() {
  constexpr int kOfItsOwn = 256 << 10;  // a block of this size is mapped, and unmapped when freed
  constexpr int kAtTheTop = 1 << 20;    // free at a heap's end
  ::mallopt(M_MMAP_THRESHOLD, kOfItsOwn);
  ::mallopt(M_TRIM_THRESHOLD, kAtTheTop);
}

void SayBeforeEnd(const std::string& text) {
  constexpr int kPatienceMs = 1000;
  pollfd room = {STDERR_FILENO, POLLOUT, 0};
  if (::poll(&room, 1, kPatienceMs) <= 0) return;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

SignalHandlers::SignalHandlers() : actions_(NSIG) {
  for (int signal = 1; signal < NSIG; ++signal) {
    if (::sigaction(signal, nullptr, &actions_[static_cast<size_t>(signal)]) != 0) {
      actions_[static_cast<size_t>(signal)].sa_handler = SIG_DFL;
    }
  }
}

std::vector<std::string> SignalHandlers::Restore() const {
  std::vector<std::string> restored;
  for (int signal = 1; signal < NSIG; ++signal) {
    const struct sigaction& before = actions_[static_cast<size_t>(signal)];
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) != 0 || now.sa_handler == before.sa_handler) continue;
    if (::sigaction(signal, &before, nullptr) != 0) continue;
    const char* name = ::sigabbrev_np(signal);
    restored.push_back(name == nullptr ? std::to_string(signal) : std::string("SIG") + name);
  }
  return restored;
}

int WaitForSignal(std::chrono::milliseconds at_most) {
  const sigset_t set = SteeringSignals();
  const auto until = std::chrono::steady_clock::now() + at_most;
  while (true) {
    const auto left = std::max(std::chrono::nanoseconds(0),
                               std::chrono::nanoseconds(until - std::chrono::steady_clock::now()));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec wait{static_cast<time_t>(seconds.count()),
                        static_cast<long>((left - seconds).count())};
    const int signal = ::sigtimedwait(&set, nullptr, &wait);
    if (signal > 0) return signal;
    if (errno == EAGAIN) return 0;
  }
}

void OnNextSignal(std::function<void()> on_signal) {
  try {
    std::thread([on_signal = std::move(on_signal)] {
      const sigset_t set = EndingSignals();
      int signal = 0;
      while (::sigwait(&set, &signal) != 0) {
      }
      on_signal();
    }).detach();
  } catch (const std::system_error&) {
    // The process may have no more threads: the end goes its way, and cannot be hurried.
  }
}

void TellReady(const std::string& status) { ::sd_notifyf(0, "READY=1\nSTATUS=%s", status.c_str()); }

void TellReloading() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const long long microseconds =
      static_cast<long long>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000;
  ::sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%lld", microseconds);
}

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
