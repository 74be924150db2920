// The tries of one transfer whose connection can be lost.
#pragma once

#include <chrono>
#include <cstdint>

#include "daemon/engine/transfers/carried.h"
#include "onecopy/status.h"
#include "transport/os/event_loop.h"

namespace onecopy::engine {

// Counts tries, remembers what has arrived and what was lost, and says how long the transfer may
// wait. Bytes that have arrived are not moved again. Engine thread.
class Tries {
 public:
  // A transfer continues at a multiple of this, which is whole blocks of a file.
  static constexpr uint64_t kGrain = uint64_t{1} << 20;

  // The times that a transfer may wait of which nothing has arrived, and of which something has.
  Tries(std::chrono::milliseconds nothing, std::chrono::milliseconds something)
      : nothing_(nothing), something_(something) {}

  // Of the payload, from its beginning on. A multiple of kGrain, and less than the payload.
  uint64_t arrived() const { return arrived_; }
  // `bytes` of `payload` have arrived. If that is a grain more than before, the tries begin again,
  // and it returns true.
  bool Arrived(uint64_t bytes, uint64_t payload);

  // A connection was lost, or a node, for this reason. The first reason counts until more arrives.
  void Lose(const Status& why);
  const Status& lost() const { return lost_; }
  // The source's node does not answer: the next pause is not the shortest one.
  void LoseNode();
  // Another path is tried.
  void BeginAgain() { made_ = 0; }
  // For the receipt: what a lost try moved.
  void Carry(const MoveOutcome& outcome) { carried_.Add(outcome); }
  const Carried& carried() const { return carried_; }

  // Whether something is left of the time to wait. It runs from the loss on, or from
  // `progressed`, when the transfer made progress last.
  bool MayWait(bool something, os::Clock::time_point progressed) const;
  // Whether a transfer of which nothing has arrived may try once more.
  bool MayTryAgain(os::Clock::time_point progressed) const;
  // Whether so many were made that not each of them is worth a line in the receipt.
  bool many() const;
  // Before the next one: none the first time, then one that doubles.
  std::chrono::milliseconds Pause() const;

 private:
  os::Clock::duration LostFor(os::Clock::time_point progressed) const;

  const std::chrono::milliseconds nothing_;
  const std::chrono::milliseconds something_;
  uint64_t arrived_ = 0;
  int made_ = 0;  // that were lost, on this path, since more has arrived
  Status lost_;
  os::Clock::time_point lost_at_;
  Carried carried_;
};

}  // namespace onecopy::engine
