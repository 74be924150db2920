#include "transport/os/memory/fault_guard.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include "transport/core/base/mutex.h"
#include "transport/os/memory/bus_signals.h"

namespace onecopy::os {

// What the handler reads, on any thread at any time. `version` is odd while an entry changes; one
// that covers a faulting address does not change, as code that touches the mapping keeps its guard.
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
      TakeBusFaults(&Take);
      return table;
    }();
    return *made;
  }

  FaultTable() { AddFree(&first); }

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

  static bool Take(uintptr_t address, const ucontext_t& /*interrupted*/) {
    return for_signals.load()->Replace(address);
  }

  inline static std::atomic<FaultTable*> for_signals{nullptr};
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
  StayBeforeOthers();
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
