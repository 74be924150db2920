// A queue that gives several flows equal shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <unordered_map>
#include <utility>
#include <vector>

namespace onecopy {

// Within a flow it goes in order; flows take turns, each worth `quantum` of what items cost, so
// that one of many small items has no less than one of few large ones. What a turn leaves over, or
// an item costs more than one, is carried to the flow's next turn, for as long as it has items. One
// thread.
template <typename T>
class FairQueue {
 public:
  explicit FairQueue(uint64_t quantum) : quantum_(quantum == 0 ? 1 : quantum) {}
  FairQueue(FairQueue&&) = default;
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;

  bool empty() const { return turns_.empty(); }
  size_t size() const { return size_; }

  void Push(uint64_t flow, uint64_t cost, T item) {
    Flow& waiting = flows_[flow];
    if (waiting.items.empty()) turns_.push_back(flow);
    waiting.items.push_back({cost, std::move(item)});
    ++size_;
  }

  // Before all others of its flow.
  void PushFirst(uint64_t flow, uint64_t cost, T item) {
    Flow& waiting = flows_[flow];
    if (waiting.items.empty()) turns_.push_back(flow);
    waiting.items.push_front({cost, std::move(item)});
    ++size_;
  }

  // Of the flow whose turn it is. Not of an empty queue.
  T Pop() {
    while (true) {
      const uint64_t number = turns_.front();
      Flow& flow = flows_.at(number);
      if (!std::exchange(turn_begun_, true)) flow.credit += quantum_;
      if (flow.items.front().cost > flow.credit) {
        EndTurn();
        turns_.push_back(number);
        continue;
      }
      flow.credit -= flow.items.front().cost;
      T item = std::move(flow.items.front().item);
      flow.items.pop_front();
      --size_;
      if (flow.items.empty()) {
        flows_.erase(number);
        EndTurn();
      }
      return item;
    }
  }

  // Takes out those of one flow, in order.
  std::vector<T> TakeFlow(uint64_t flow) {
    return TakeIf(flow, [](const T&) { return true; });
  }
  std::vector<T> TakeAll() {
    return TakeIf([](const T&) { return true; });
  }
  // Those of which `which` says so, in order within each flow.
  template <typename Which>
  std::vector<T> TakeIf(const Which& which) {
    std::vector<T> taken;
    const std::deque<uint64_t> flows = turns_;
    for (const uint64_t flow : flows) {
      std::vector<T> of_flow = TakeIf(flow, which);
      taken.insert(taken.end(), std::make_move_iterator(of_flow.begin()),
                   std::make_move_iterator(of_flow.end()));
    }
    return taken;
  }

 private:
  struct Entry {
    uint64_t cost = 0;
    T item;
  };
  struct Flow {
    std::deque<Entry> items;
    uint64_t credit = 0;
  };

  template <typename Which>
  std::vector<T> TakeIf(uint64_t number, const Which& which) {
    std::vector<T> taken;
    const auto found = flows_.find(number);
    if (found == flows_.end()) return taken;
    std::deque<Entry> kept;
    for (Entry& entry : found->second.items) {
      if (which(entry.item)) {
        taken.push_back(std::move(entry.item));
      } else {
        kept.push_back(std::move(entry));
      }
    }
    size_ -= taken.size();
    found->second.items = std::move(kept);
    if (!found->second.items.empty()) return taken;
    flows_.erase(found);
    if (turns_.front() == number) {
      EndTurn();
    } else {
      std::erase(turns_, number);
    }
    return taken;
  }

  void EndTurn() {
    turns_.pop_front();
    turn_begun_ = false;
  }

  const uint64_t quantum_;
  std::unordered_map<uint64_t, Flow> flows_;  // those with items
  std::deque<uint64_t> turns_;                // of the same, the one whose turn it is first
  bool turn_begun_ = false;                   // the first one's
  size_t size_ = 0;
};

}  // namespace onecopy
