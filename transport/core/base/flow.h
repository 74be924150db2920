// Whose bytes something moves, for the queues where those of several wait.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "onecopy/pacing.h"

namespace onecopy {

// What a turn of a weight of 1 is worth, in bytes, where bytes wait.
inline constexpr uint64_t kFairTurnBytes = uint64_t{64} << 10;

inline constexpr size_t kPriorities = 3;

// Nodes share what there is to share, and the users of a node its part, each according to its
// weight. The numbers only tell one from another. Nothing set: the daemon's own.
struct Flow {
  uint64_t node = 0;
  uint64_t user = 0;  // of that node
  uint32_t node_weight = 1;
  uint32_t user_weight = 1;
  uint32_t generation = 0;  // of the weights: those of the newest that a queue was told count
  Priority priority = Priority::kNormal;      // against all others'
  Priority own_priority = Priority::kNormal;  // against others of the same user
  // How many requests of this transfer wait for their turn now. A check for stalled transfers reads
  // it. Null: they are not counted.
  std::shared_ptr<std::atomic<int64_t>> waiting = {};

  bool SameOwner(const Flow& other) const { return node == other.node && user == other.user; }
};

// Counts one that waits, for as long as it lives.
class WaitingOne {
 public:
  explicit WaitingOne(std::shared_ptr<std::atomic<int64_t>> count) : count_(std::move(count)) {
    if (count_ != nullptr) count_->fetch_add(1, std::memory_order_relaxed);
  }
  ~WaitingOne() {
    if (count_ != nullptr) count_->fetch_sub(1, std::memory_order_relaxed);
  }
  WaitingOne(WaitingOne&&) noexcept = default;
  WaitingOne& operator=(WaitingOne&& other) noexcept {
    std::swap(count_, other.count_);
    return *this;
  }

 private:
  std::shared_ptr<std::atomic<int64_t>> count_;
};

}  // namespace onecopy
