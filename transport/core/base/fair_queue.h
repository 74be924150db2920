// A queue that gives those whose items wait in it their shares.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/core/base/flow.h"

namespace onecopy {
namespace fair_queue {

// In order.
template <typename T>
class Line {
 public:
  explicit Line(uint64_t /*quantum*/) {}

  bool empty() const { return entries_.empty(); }
  uint64_t NextCost() { return entries_.front().cost; }
  T Pop() {
    T item = std::move(entries_.front().item);
    entries_.pop_front();
    return item;
  }
  void Push(uint64_t cost, T item, const Flow& flow = {}) {
    entries_.push_back({cost, std::move(item), WaitingOne(flow.waiting)});
  }
  void PushFirst(uint64_t cost, T item, const Flow& flow = {}) {
    entries_.push_front({cost, std::move(item), WaitingOne(flow.waiting)});
  }

  template <typename Which>
  void TakeIf(const Which& which, std::vector<T>* taken) {
    std::deque<Entry> kept;
    for (Entry& entry : entries_) {
      if (which(entry.item)) {
        taken->push_back(std::move(entry.item));
      } else {
        kept.push_back(std::move(entry));
      }
    }
    entries_ = std::move(kept);
  }

 private:
  struct Entry {
    uint64_t cost = 0;
    T item;
    WaitingOne waiting;
  };
  std::deque<Entry> entries_;
};

// Several of what is below take turns (deficit round robin): a turn is worth `quantum` for each
// share of the weight. What it leaves over, or an item costs more, is carried to the next turn, for
// as long as there are items.
template <typename T, typename Below>
class Turns {
 public:
  explicit Turns(uint64_t quantum) : quantum_(quantum) {}

  bool empty() const { return order_.empty(); }
  // Of what Pop returns. Not of an empty one; nor Pop.
  uint64_t NextCost() { return Next().below.NextCost(); }
  T Pop() {
    Member& next = Next();
    next.credit -= next.below.NextCost();
    T item = next.below.Pop();
    if (next.below.empty()) Drop(order_.front());
    return item;
  }
  // For something to be pushed, which must follow.
  Below& Join(uint64_t number, uint32_t weight, uint32_t generation) {
    auto [found, is_new] = members_.try_emplace(number, quantum_);
    Member& member = found->second;
    if (is_new) order_.push_back(number);
    if (is_new || generation >= member.generation) {
      member.weight = std::max<uint32_t>(weight, 1);
      member.generation = generation;
    }
    return member.below;
  }
  template <typename Use>
  void ForEach(const Use& use) {
    const std::deque<uint64_t> all = order_;
    for (const uint64_t number : all) UseOne(number, use);
  }
  template <typename Use>
  void UseOne(uint64_t number, const Use& use) {
    const auto found = members_.find(number);
    if (found == members_.end()) return;
    use(found->second.below);
    if (found->second.below.empty()) Drop(number);
  }

 private:
  struct Member {
    explicit Member(uint64_t quantum) : below(quantum) {}
    Below below;
    uint64_t credit = 0;
    uint32_t weight = 1;
    uint32_t generation = 0;
  };

  Member& Next() {
    for (size_t passed = 0;; ++passed) {
      if (passed == order_.size()) {
        SkipRounds();
        passed = 0;
      }
      const uint64_t number = order_.front();
      Member& member = members_.at(number);
      if (!std::exchange(turn_begun_, true)) member.credit += quantum_ * member.weight;
      if (member.below.NextCost() <= member.credit) return member;
      order_.pop_front();
      order_.push_back(number);
      turn_begun_ = false;
    }
  }
  // No member can pay in this round: as many as it takes until the first one can, less one.
  void SkipRounds() {
    uint64_t rounds = UINT64_MAX;
    for (auto& [number, member] : members_) {
      const uint64_t cost = member.below.NextCost();
      const uint64_t missing = cost - std::min(member.credit, cost);
      rounds = std::min(rounds, missing == 0 ? 0 : (missing - 1) / (quantum_ * member.weight));
    }
    for (auto& [number, member] : members_) member.credit += rounds * quantum_ * member.weight;
  }
  void Drop(uint64_t number) {
    members_.erase(number);
    if (order_.front() == number) {
      order_.pop_front();
      turn_begun_ = false;
    } else {
      std::erase(order_, number);
    }
  }

  const uint64_t quantum_;
  std::unordered_map<uint64_t, Member> members_;  // those with items
  std::deque<uint64_t> order_;                    // of the same, the one whose turn it is first
  bool turn_begun_ = false;                       // the first one's
};

// One of what is below for each priority: the highest that has items comes first. Each that waits
// meanwhile has its next item once kAtMost times as much of the higher ones has gone before it, so
// that nothing waits for ever.
template <typename T, typename Below>
class Ranks {
 public:
  explicit Ranks(uint64_t quantum) : ranks_{Below(quantum), Below(quantum), Below(quantum)} {}

  bool empty() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Below& one) { return one.empty(); });
  }
  uint64_t NextCost() { return ranks_[Next()].NextCost(); }
  T Pop() {
    const size_t next = Next();
    const uint64_t cost = ranks_[next].NextCost();
    passed_[next] = 0;
    for (size_t lower = 0; lower < next; ++lower) {
      passed_[lower] = ranks_[lower].empty() ? 0 : passed_[lower] + cost;
    }
    return ranks_[next].Pop();
  }
  Below& Of(Priority priority) { return ranks_[static_cast<size_t>(priority)]; }
  template <typename Use>
  void ForEach(const Use& use) {
    for (Below& one : ranks_) use(one);
  }

 private:
  static constexpr uint64_t kAtMost = 64;

  // Of what is not empty.
  size_t Next() {
    size_t highest = kPriorities - 1;
    while (highest > 0 && ranks_[highest].empty()) --highest;
    for (size_t lower = 0; lower < highest; ++lower) {
      if (!ranks_[lower].empty() && passed_[lower] / kAtMost >= ranks_[lower].NextCost()) {
        return lower;
      }
    }
    return highest;
  }

  std::array<Below, kPriorities> ranks_;
  std::array<uint64_t, kPriorities> passed_{};  // what has gone before the next item
};

}  // namespace fair_queue

// What has a higher priority goes first. Of one priority, nodes take turns, within a node's its
// users, within a user's, again by the user's own priorities, the channels: each worth so much of
// what items cost, not of their number, so that one of many small items has no less than one of few
// large ones. A channel's items of one priority are in order. One thread.
template <typename T>
class FairQueue {
 public:
  // A turn of a weight of 1 is worth `quantum`.
  explicit FairQueue(uint64_t quantum) : all_(quantum == 0 ? 1 : quantum) {}
  FairQueue(FairQueue&&) = default;
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

  // An item of more than kMaxCost counts as one of that. The flow's weights hold from now on, also
  // for what waits already, unless what waits has newer ones; its priority holds for this item.
  void Push(const Flow& flow, uint64_t channel, uint64_t cost, T item) {
    Join(flow, channel).Push(std::min(cost, kMaxCost), std::move(item), flow);
    ++size_;
  }
  // Before all others of its channel.
  void PushFirst(const Flow& flow, uint64_t channel, uint64_t cost, T item) {
    Join(flow, channel).PushFirst(std::min(cost, kMaxCost), std::move(item), flow);
    ++size_;
  }

  // Of the channel whose turn it is. Not of an empty queue.
  T Pop() {
    --size_;
    return all_.Pop();
  }

  // Takes out those of one channel, of whatever flow, in order.
  std::vector<T> TakeChannel(uint64_t channel) {
    std::vector<T> taken;
    ForEach([&](Channels& channels) {
      channels.UseOne(channel, [&](fair_queue::Line<T>& line) {
        line.TakeIf([](const T&) { return true; }, &taken);
      });
    });
    size_ -= taken.size();
    return taken;
  }
  std::vector<T> TakeAll() {
    return TakeIf([](const T&) { return true; });
  }
  // Those of which `which` says so, in order within each channel.
  template <typename Which>
  std::vector<T> TakeIf(const Which& which) {
    std::vector<T> taken;
    ForEach([&](Channels& channels) {
      channels.ForEach([&](fair_queue::Line<T>& line) { line.TakeIf(which, &taken); });
    });
    size_ -= taken.size();
    return taken;
  }

 private:
  static constexpr uint64_t kMaxCost = uint64_t{1} << 40;

  using Channels = fair_queue::Turns<T, fair_queue::Line<T>>;
  using Own = fair_queue::Ranks<T, Channels>;
  using Users = fair_queue::Turns<T, Own>;
  using Nodes = fair_queue::Turns<T, Users>;

  fair_queue::Line<T>& Join(const Flow& flow, uint64_t channel) {
    return all_.Of(flow.priority)
        .Join(flow.node, flow.node_weight, flow.generation)
        .Join(flow.user, flow.user_weight, flow.generation)
        .Of(flow.own_priority)
        .Join(channel, 1, 0);
  }
  template <typename Use>
  void ForEach(const Use& use) {
    all_.ForEach([&](Nodes& nodes) {
      nodes.ForEach([&](Users& users) { users.ForEach([&](Own& own) { own.ForEach(use); }); });
    });
  }

  fair_queue::Ranks<T, Nodes> all_;
  size_t size_ = 0;
};

}  // namespace onecopy
