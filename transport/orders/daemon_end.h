// The daemon's end of a client's orders. Trusts nothing that the client can write.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "onecopy/result.h"
#include "transport/orders/layout.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::orders {

// One thread.
class DaemonEnd {
 public:
  static Result<DaemonEnd> Make();

  int memory() const { return memory_.get(); }

  // Writes an order, which the client sees with the next Publish: its number. Nothing while kOrders
  // are under way, counted from the oldest that has no answer.
  std::optional<uint64_t> Place(const Order& order);
  // Wakes as many of the client's threads as there are new orders.
  void Publish();

  // An order that has been answered, or nothing; each comes once. What is not an answer to an order
  // under way is none.
  struct Answer {
    uint64_t number = 0;
    Outcome outcome = Outcome::kCopied;
  };
  std::optional<Answer> Reap();

  // True when the client will send a byte with its next answer; false when there are answers.
  bool Sleep();

  // Orders that have no answer are not to be begun any more; those that were begun end when they
  // do. All of them are answered still.
  void VoidAll();
  // No more orders: the client's threads end.
  void End();

 private:
  DaemonEnd(os::UniqueFd memory, os::Mapping mapping)
      : memory_(std::move(memory)), mapping_(std::move(mapping)), open_(kOrders) {}
  Shared& shared() const { return *reinterpret_cast<Shared*>(mapping_.data()); }
  // Nothing where that order has not been answered.
  std::optional<Outcome> AnswerTo(uint64_t number) const;

  os::UniqueFd memory_;
  os::Mapping mapping_;
  std::vector<bool> open_;  // by place: is under way
  uint64_t oldest_ = 0;     // that may be open
  uint64_t next_ = 0;
  uint64_t published_ = 0;
  uint64_t look_ = 0;  // for answers, from here on
};

}  // namespace onecopy::orders
