#include "transport/os/memory/bus_signals.h"

#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "transport/core/base/mutex.h"

namespace onecopy::os {
namespace {

using Handler = void (*)(int, siginfo_t*, void*);

// A handler that was installed above ours may call ours, if it calls any; put above it
// once more, ours must not go on to it again and again. So each time another function is installed,
// which goes on to its own predecessor: the chain has no circle. After so many ours stays where it
// is, and gets what those above it pass on.
constexpr size_t kLevels = 16;

struct Level {
  struct sigaction before {};
  std::atomic<bool> spent{false};  // the one before wanted to be called once
};

// Never destroyed: a signal may come at any time.
struct Chain {
  std::array<Level, kLevels> levels;
  std::array<std::atomic<TakeFault>, kMostTakers> takers{};
  Mutex mutex;
  size_t used ONECOPY_GUARDED_BY(mutex) = 0;
};

Chain& TheChain() {
  static Chain* const made = new Chain;
  return *made;
}

// The end of the process as if there were no handler: the instruction faults again, or the signal
// comes again.
void EndAsByDefault(int signal, const siginfo_t* info) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
  if (info->si_code <= 0) ::raise(signal);
}

// As the kernel would have called it.
void PassOn(Level& level, int signal, siginfo_t* info, void* context) {
  const struct sigaction& before = level.before;
  const bool once = (before.sa_flags & SA_RESETHAND) != 0;
  if (once && level.spent.exchange(true)) return EndAsByDefault(signal, info);
  const bool plain = (before.sa_flags & SA_SIGINFO) == 0;
  if (plain && before.sa_handler == SIG_IGN && info->si_code <= 0) return;
  if (plain && (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN)) {
    return EndAsByDefault(signal, info);
  }
  sigset_t mask = before.sa_mask;
  if ((before.sa_flags & SA_NODEFER) == 0) ::sigaddset(&mask, signal);
  ::pthread_sigmask(SIG_BLOCK, &mask, nullptr);
  if ((before.sa_flags & SA_NODEFER) != 0) {
    sigset_t own;
    ::sigemptyset(&own);
    ::sigaddset(&own, signal);
    ::pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
  }
  if (plain) return before.sa_handler(signal);
  before.sa_sigaction(signal, info, context);
}

void OnSignal(size_t number, int signal, siginfo_t* info, void* context) {
  const int kept = errno;
  Chain& chain = TheChain();
  const bool fault =
      info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR || info->si_code == BUS_MCEERR_AR;
  for (const std::atomic<TakeFault>& each : chain.takers) {
    const TakeFault take = each.load(std::memory_order_acquire);
    if (!fault || take == nullptr) break;
    const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
    if (take(address, *static_cast<const ucontext_t*>(context))) {
      errno = kept;
      return;
    }
  }
  errno = kept;
  PassOn(chain.levels[number], signal, info, context);
}

template <size_t kNumber>
void OnSignalAt(int signal, siginfo_t* info, void* context) {
  OnSignal(kNumber, signal, info, context);
}

template <size_t... kNumbers>
constexpr std::array<Handler, sizeof...(kNumbers)> Handlers(std::index_sequence<kNumbers...>) {
  return {&OnSignalAt<kNumbers>...};
}
constexpr std::array<Handler, kLevels> kHandlers = Handlers(std::make_index_sequence<kLevels>());

bool IsOurs(const struct sigaction& action) {
  if ((action.sa_flags & SA_SIGINFO) == 0) return false;
  for (const Handler each : kHandlers) {
    if (action.sa_sigaction == each) return true;
  }
  return false;
}

void Install(Chain& chain) ONECOPY_REQUIRES(chain.mutex) {
  struct sigaction now {};
  ::sigaction(SIGBUS, nullptr, &now);
  if (IsOurs(now) || chain.used == kLevels) return;
  Level& level = chain.levels[chain.used];
  level.before = now;  // before a signal can come to it
  struct sigaction action {};
  action.sa_sigaction = kHandlers[chain.used++];
  // ONSTACK: a thread that has brought a stack for signals may be short of its own.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

void TakeBusFaults(TakeFault take) {
  Chain& chain = TheChain();
  const MutexLock lock(chain.mutex);
  for (std::atomic<TakeFault>& each : chain.takers) {
    if (each.load() != nullptr) continue;
    each.store(take, std::memory_order_release);
    break;
  }
  Install(chain);
}

void StayBeforeOthers() {
  struct sigaction now {};
  ::sigaction(SIGBUS, nullptr, &now);
  Chain& chain = TheChain();
  if (IsOurs(now) || chain.takers.front().load() == nullptr) return;
  const MutexLock lock(chain.mutex);
  Install(chain);
}

}  // namespace onecopy::os
