#include "transport/os/fault_guard.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>
#include <vector>

#include "transport/core/mutex.h"

namespace onecopy::os {

// What the handler reads, on any thread at any time. `version` is odd while an entry changes; one
// that covers a faulting address does not change, as whoever touches the mapping keeps its guard.
struct FaultGuard::Entry {
  std::atomic<uint64_t> version{0};
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<std::atomic<bool>*> flag{nullptr};
};

// All guards of the process. Entries are never given back, as the handler may be reading them.
struct FaultTable {
  using Entry = FaultGuard::Entry;
  static constexpr size_t kChunk = 1024;
  struct Chunk {
    std::array<Entry, kChunk> entries;
    std::atomic<Chunk*> next{nullptr};
  };

  // Outlives whatever may still fault.
  static FaultTable& Get() {
    static FaultTable* const made = [] {
      auto* const table = new FaultTable;
      for_signals.store(table);
      table->Install();
      return table;
    }();
    return *made;
  }

  FaultTable() { AddFree(&first); }

  void Install() {
    struct sigaction action {};
    action.sa_sigaction = &OnSignal;
    // ONSTACK: a thread that has brought a stack for signals may be short of its own.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &before);
  }

  void AddFree(Chunk* chunk) ONECOPY_REQUIRES(mutex) {
    for (Entry& entry : chunk->entries) free.push_back(&entry);
  }

  Entry* Add(uintptr_t begin, uintptr_t end, std::atomic<bool>* flag) {
    const MutexLock lock(mutex);
    if (free.empty()) {
      auto* const chunk = new Chunk;
      AddFree(chunk);
      last->next.store(chunk, std::memory_order_release);
      last = chunk;
    }
    Entry* const entry = free.back();
    free.pop_back();
    Set(*entry, begin, end, flag);
    return entry;
  }

  void Remove(Entry* entry) {
    const MutexLock lock(mutex);
    Set(*entry, 0, 0, nullptr);
    free.push_back(entry);
  }

  static void Set(Entry& entry, uintptr_t begin, uintptr_t end, std::atomic<bool>* flag) {
    entry.version.fetch_add(1);
    entry.begin.store(begin);
    entry.end.store(end);
    entry.flag.store(flag);
    entry.version.fetch_add(1);
  }

  // For signal handlers: no lock, no allocation.
  bool Replace(uintptr_t address) {
    for (Chunk* chunk = &first; chunk != nullptr;
         chunk = chunk->next.load(std::memory_order_acquire)) {
      for (Entry& entry : chunk->entries) {
        const uint64_t version = entry.version.load();
        const uintptr_t begin = entry.begin.load();
        const uintptr_t end = entry.end.load();
        std::atomic<bool>* const flag = entry.flag.load();
        const bool covers = begin <= address && address < end;
        if (!covers || version % 2 != 0 || entry.version.load() != version) continue;
        // Of several threads that fault at once the later ones replace the same again.
        flag->store(true);
        const long mapped =
            ::syscall(SYS_mmap, begin, end - begin, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0L);
        return mapped == static_cast<long>(begin);
      }
    }
    return false;
  }

  static void OnSignal(int signal, siginfo_t* info, void* context) {
    const int kept = errno;
    FaultTable& table = *for_signals.load();
    const bool fault = info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR ||
                       info->si_code == BUS_MCEERR_AR;
    const bool replaced = fault && table.Replace(reinterpret_cast<uintptr_t>(info->si_addr));
    errno = kept;
    if (!replaced) table.PassOn(signal, info, context);
  }

  void PassOn(int signal, siginfo_t* info, void* context) const {
    if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, info, context);
    if (before.sa_handler == SIG_IGN && info->si_code <= 0) return;
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
      return before.sa_handler(signal);
    }
    // The end, as if there were no handler: the instruction faults again, or the signal comes
    // again.
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    ::sigaction(signal, &action, nullptr);
    if (info->si_code <= 0) ::raise(signal);
  }

  inline static std::atomic<FaultTable*> for_signals{nullptr};
  struct sigaction before {};
  Chunk first;
  Mutex mutex;
  Chunk* last ONECOPY_GUARDED_BY(mutex) = &first;
  std::vector<Entry*> free ONECOPY_GUARDED_BY(mutex);
};

void FaultGuard::Install() { FaultTable::Get(); }

FaultGuard::FaultGuard(std::byte* data, uint64_t bytes, FaultFlag flag) : flag_(std::move(flag)) {
  if (bytes == 0) return;
  const auto begin = reinterpret_cast<uintptr_t>(data);
  entry_ = FaultTable::Get().Add(begin, begin + bytes, flag_.get());
}

FaultGuard::~FaultGuard() {
  if (entry_ != nullptr) FaultTable::Get().Remove(entry_);
}

FaultGuard::FaultGuard(FaultGuard&& other) noexcept
    : entry_(std::exchange(other.entry_, nullptr)), flag_(std::move(other.flag_)) {}

FaultGuard& FaultGuard::operator=(FaultGuard&& other) noexcept {
  std::swap(entry_, other.entry_);
  std::swap(flag_, other.flag_);
  return *this;
}

}  // namespace onecopy::os
