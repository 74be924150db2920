#include "transport/orders/daemon_end.h"

#include <algorithm>
#include <climits>
#include <new>
#include <utility>

#include "transport/os/threads/futex.h"

namespace onecopy::orders {

Result<DaemonEnd> DaemonEnd::Make() {
  ONECOPY_ASSIGN_OR_RETURN(os::UniqueFd memory, os::SealedMemfd("onecopy-orders", sizeof(Shared)));
  ONECOPY_ASSIGN_OR_RETURN(os::Mapping mapping, os::MapShared(memory.get(), sizeof(Shared)));
  auto* shared = new (mapping.data()) Shared{};  // touches every page
  shared->layout.store(kLayout, std::memory_order_relaxed);
  shared->asleep.store(1, std::memory_order_relaxed);
  shared->magic.store(kMagic, std::memory_order_release);
  return DaemonEnd(std::move(memory), std::move(mapping));
}

std::optional<uint64_t> DaemonEnd::Place(const Order& order) {
  if (next_ - oldest_ >= kOrders) return std::nullopt;
  Entry& entry = shared().entries[next_ % kOrders];
  const auto put = [&entry](Entry::Word word, uint64_t value) {
    entry.words[word].store(value, std::memory_order_relaxed);
  };
  put(Entry::kNumber, next_);
  put(Entry::kRegion, order.region);
  put(Entry::kOffset, order.offset);
  put(Entry::kSlab, order.slab);
  put(Entry::kBytes, order.bytes);
  put(Entry::kRegionStride, order.region_stride);
  put(Entry::kSlabStride, order.slab_stride);
  put(Entry::kCountAndWay, order.count << 1 | static_cast<uint64_t>(order.way));
  open_[next_ % kOrders] = true;
  return next_++;
}

void DaemonEnd::Publish() {
  const uint64_t more = next_ - published_;
  if (more == 0) return;
  published_ = next_;
  shared().ordered.store(next_, std::memory_order_release);
  // Either the client's count of sleepers is seen here, or its thread sees the orders before it
  // sleeps.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (shared().sleepers.load(std::memory_order_relaxed) == 0) return;
  shared().signal.fetch_add(1, std::memory_order_release);
  os::FutexWake(shared().signal, static_cast<int>(more));
}

std::optional<Outcome> DaemonEnd::AnswerTo(uint64_t number) const {
  const uint64_t word = shared().answers[number % kOrders].load(std::memory_order_acquire);
  const uint64_t outcome = word & 0xff;
  if (word >> 8 != ((number + 1) & (UINT64_MAX >> 8))) return std::nullopt;
  if (outcome > static_cast<uint64_t>(Outcome::kFaulted)) return Outcome::kOutOfRegion;
  return static_cast<Outcome>(outcome);
}

std::optional<DaemonEnd::Answer> DaemonEnd::Reap() {
  for (look_ = std::max(look_, oldest_); look_ < published_; ++look_) {
    if (!open_[look_ % kOrders]) continue;
    const std::optional<Outcome> outcome = AnswerTo(look_);
    if (!outcome) continue;
    const uint64_t number = look_++;
    open_[number % kOrders] = false;
    while (oldest_ < next_ && !open_[oldest_ % kOrders]) ++oldest_;
    return Answer{number, *outcome};
  }
  look_ = 0;
  return std::nullopt;
}

bool DaemonEnd::Sleep() {
  shared().asleep.store(1, std::memory_order_relaxed);
  // Either the client sees this after it has answered, or its answer is seen here.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (uint64_t number = oldest_; number < published_; ++number) {
    if (!open_[number % kOrders] || !AnswerTo(number)) continue;
    shared().asleep.store(0, std::memory_order_relaxed);
    return false;
  }
  return true;
}

void DaemonEnd::VoidAll() { shared().void_before.store(next_, std::memory_order_seq_cst); }

void DaemonEnd::End() {
  VoidAll();
  shared().ended.store(1, std::memory_order_release);
  shared().signal.fetch_add(1, std::memory_order_seq_cst);
  os::FutexWake(shared().signal, INT_MAX);
}

}  // namespace onecopy::orders
