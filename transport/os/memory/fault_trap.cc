#include "transport/os/memory/fault_trap.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

#include <array>
#include <atomic>

#include "transport/os/memory/bus_signals.h"

namespace onecopy::os {
namespace {

// A thread that touches memory of others. Only the thread itself, and its signal's handler, look at
// more than `thread`.
struct Entry {
  std::atomic<pthread_t> thread{0};  // 0: free
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<sigjmp_buf*> back{nullptr};
};

// As many as there are threads at a time; never given back, as a handler may be looking.
struct Chunk {
  std::array<Entry, 64> entries;
  std::atomic<Chunk*> next{nullptr};
};

bool Take(uintptr_t address, const ucontext_t& interrupted);

Chunk& FirstChunk() {
  static Chunk* const made = new Chunk;
  return *made;
}

// What FirstChunk makes, for the handler, which must not make it.
std::atomic<Chunk*> for_signals{nullptr};

void Install() {
  static const bool installed = [] {
    for_signals.store(&FirstChunk());
    TakeBusFaults(&Take);
    return true;
  }();
  static_cast<void>(installed);
}

Entry& Claim(pthread_t self) {
  for (Chunk* chunk = &FirstChunk();;) {
    for (Entry& entry : chunk->entries) {
      pthread_t free = 0;
      if (entry.thread.load(std::memory_order_relaxed) == 0 &&
          entry.thread.compare_exchange_strong(free, self)) {
        return entry;
      }
    }
    Chunk* next = chunk->next.load(std::memory_order_acquire);
    if (next == nullptr) {
      auto* const made = new Chunk;
      if (chunk->next.compare_exchange_strong(next, made)) {
        next = made;
      } else {
        delete made;
      }
    }
    chunk = next;
  }
}

bool Take(uintptr_t address, const ucontext_t& interrupted) {
  const pthread_t self = ::pthread_self();
  for (Chunk* chunk = for_signals.load(); chunk != nullptr;
       chunk = chunk->next.load(std::memory_order_acquire)) {
    for (Entry& entry : chunk->entries) {
      if (entry.thread.load(std::memory_order_relaxed) != self) continue;
      if (address < entry.begin.load() || address >= entry.end.load()) continue;
      // As the end of the handler would have it.
      ::pthread_sigmask(SIG_SETMASK, &interrupted.uc_sigmask, nullptr);
      ::siglongjmp(*entry.back.load(), 1);
    }
  }
  return false;
}

}  // namespace

bool TouchForeign(const std::byte* data, uint64_t bytes, void (*work)(void*), void* context) {
  Install();
  StayBeforeOthers();
  sigjmp_buf back;
  Entry& entry = Claim(::pthread_self());
  const auto begin = reinterpret_cast<uintptr_t>(data);
  entry.begin.store(begin);
  entry.end.store(begin + bytes);
  entry.back.store(&back);
  const bool done = sigsetjmp(back, 0) == 0;
  if (done) work(context);
  entry.end.store(0);
  entry.thread.store(0, std::memory_order_release);
  return done;
}

}  // namespace onecopy::os
