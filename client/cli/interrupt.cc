#include "client/cli/interrupt.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <system_error>

#include "transport/core/base/exit_status.h"

namespace onecopy::cli {

Interrupt::Interrupt() {
  sigset_t taken;
  ::sigemptyset(&taken);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) {
      ::sigaddset(&taken, signal);
    }
  }
  ::pthread_sigmask(SIG_BLOCK, &taken, &before_);
  signals_ = os::UniqueFd(::signalfd(-1, &taken, SFD_CLOEXEC));
  end_ = os::UniqueFd(::eventfd(0, EFD_CLOEXEC));
  if (!signals_ ||
      !end_) {  // no descriptors left: signals end the process, as they would without us
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    return;
  }
  try {
    thread_ = std::thread([this] { Listen(); });
  } catch (const std::system_error&) {  // likewise without threads
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
}

Interrupt::~Interrupt() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  static_cast<void>(!::write(end_.get(), &one, sizeof one));
  thread_.join();
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Interrupt::Listen() {
  std::array<pollfd, 2> polled = {{{signals_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}}};
  for (;;) {
    if (::poll(polled.data(), polled.size(), -1) < 0) continue;
    if (polled[1].revents != 0) return;
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) != sizeof info) continue;
    if (stop_.stop_requested()) ::_exit(ExitStatusOf(Code::kCancelled));
    stop_.request_stop();
  }
}

}  // namespace onecopy::cli
