#include "transport/orders/client_end.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <climits>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/threads/futex.h"

namespace onecopy::orders {

Result<std::unique_ptr<ClientEnd>> ClientEnd::Open(const os::UniqueFd& memory,
                                                   os::UniqueFd socket) {
  const Status unknown(Code::kUnimplemented, reasons::kNotServed,
                       "the daemon's orders have a layout that this library does not know",
                       "install the same version of onecopyd and of its clients");
  struct stat facts {};
  if (::fstat(memory.get(), &facts) != 0 || facts.st_size != sizeof(Shared)) return unknown;
  ONECOPY_ASSIGN_OR_RETURN(os::Mapping mapping, os::MapShared(memory.get(), sizeof(Shared)));
  (void)::madvise(mapping.data(), mapping.bytes(), MADV_DONTFORK);
  std::unique_ptr<ClientEnd> end(new ClientEnd(std::move(mapping), std::move(socket)));
  if (end->shared().magic.load(std::memory_order_acquire) != kMagic) return unknown;
  if (end->shared().layout.load(std::memory_order_relaxed) != kLayout) return unknown;
  return end;
}

std::optional<Order> ClientEnd::Take() {
  const Shared& all = shared();
  uint64_t number = taken_.load(std::memory_order_relaxed);
  Order order;
  do {
    if (number >= all.ordered.load(std::memory_order_acquire)) return std::nullopt;
    // The place is not written again before this order has been answered, which only the one who
    // takes it does.
    const Entry& entry = all.entries[number % kOrders];
    const auto get = [&entry](Entry::Word word) {
      return entry.words[word].load(std::memory_order_relaxed);
    };
    const uint64_t count_and_way = get(Entry::kCountAndWay);
    order = {number,
             static_cast<Way>(count_and_way & 1),
             get(Entry::kRegion),
             get(Entry::kOffset),
             get(Entry::kSlab),
             get(Entry::kBytes),
             get(Entry::kRegionStride),
             get(Entry::kSlabStride),
             count_and_way >> 1};
  } while (!taken_.compare_exchange_weak(number, number + 1, std::memory_order_acq_rel,
                                         std::memory_order_relaxed));
  return order;
}

bool ClientEnd::HasMore() const {
  return taken_.load(std::memory_order_relaxed) < shared().ordered.load(std::memory_order_acquire);
}

bool ClientEnd::IsVoid(const Order& order) const {
  return order.number < shared().void_before.load(std::memory_order_seq_cst);
}

void ClientEnd::Answer(const Order& order, Outcome outcome) {
  Shared& all = shared();
  all.answers[order.number % kOrders].store(AnswerWord(order.number, outcome),
                                            std::memory_order_release);
  // Either the daemon's word is seen here, or it sees the answer before it sleeps.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (all.asleep.load(std::memory_order_relaxed) == 0) return;
  if (all.asleep.exchange(0, std::memory_order_relaxed) == 0) return;
  const char byte = 1;
  // A full socket has a byte in it that wakes.
  static_cast<void>(!::send(socket_.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL));
}

void ClientEnd::Sleep(const std::atomic<bool>& stop, std::chrono::nanoseconds limit) {
  Shared& all = shared();
  const uint32_t before = all.signal.load(std::memory_order_acquire);
  all.sleepers.fetch_add(1, std::memory_order_relaxed);
  // Either what was ordered is seen here, or the daemon sees a sleeper and changes the word.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!HasMore() && !ended() && !stop.load()) os::FutexWait(all.signal, before, limit);
  all.sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void ClientEnd::WakeAll() {
  shared().signal.fetch_add(1, std::memory_order_seq_cst);
  os::FutexWake(shared().signal, INT_MAX);
}

}  // namespace onecopy::orders
