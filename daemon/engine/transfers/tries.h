// The tries of one transfer: each time its connection is lost, it may try again.
#pragma once

#include <chrono>
#include <cstdint>

#include "onecopy/status.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::engine {

// Counts tries, remembers what has arrived and what was lost, and says how long the transfer may
// wait. Bytes that have arrived are not moved again. Engine thread.
class Tries {
 public:
  // A transfer continues at a multiple of this, so that it continues at a whole block of a file.
  static constexpr uint64_t kGrain = uint64_t{1} << 20;

  // How long the transfer may wait if nothing has arrived, and if something has.
  Tries(std::chrono::milliseconds nothing, std::chrono::milliseconds something)
      : nothing_(nothing), something_(something) {}

  // How many bytes have arrived from the payload's beginning on, rounded down to a multiple of
  // kGrain. Always less than the payload.
  uint64_t arrived() const { return arrived_; }
  // Notes that `bytes` of `payload` have arrived. If arrived() grows by that, forgets earlier tries
  // and losses, and returns true.
  bool Arrived(uint64_t bytes, uint64_t payload);

  // Notes that all of the payload has arrived, so what is sent once more has tries of its own.
  void ArrivedAll();

  // Notes that a connection or node was lost. lost() keeps the first reason until more arrives.
  void Lose(const Status& why);
  const Status& lost() const { return lost_; }
  // Notes that the source's node does not answer: the next pause is then not zero.
  void LoseNode();
  // Counts tries from zero, for another path.
  void BeginAgain() { made_ = 0; }

  // Whether the transfer may wait longer. The time runs from the first loss on or, without one,
  // from `progressed`, the time of its last progress. `something`: whether something has arrived.
  bool MayWait(bool something, os::Clock::time_point progressed) const;
  // Whether a transfer of which nothing has arrived may try once more.
  bool MayTryAgain(os::Clock::time_point progressed) const;
  // Whether there were so many tries that the receipt need not list equal ones separately.
  bool many() const;
  // How long to wait before the next try: zero after the first loss, then doubling up to a limit.
  std::chrono::milliseconds Pause() const;

 private:
  os::Clock::duration LostFor(os::Clock::time_point progressed) const;

  const std::chrono::milliseconds nothing_;
  const std::chrono::milliseconds something_;
  uint64_t arrived_ = 0;
  int made_ = 0;  // lost tries on this path, since more last arrived
  Status lost_;
  os::Clock::time_point lost_at_;
};

}  // namespace onecopy::engine
