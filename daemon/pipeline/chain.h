// A chain of stages: executes a path, or one node's half of it, in chunks.
//
// Each stage moves chunks from its place to the next one, several at a time; a stage starts a move
// when there is a chunk above and room below. That is all the coordination there is: rings give
// back-pressure, and the slowest stage sets the speed of all.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/pipeline/mover.h"
#include "daemon/pipeline/pace.h"
#include "daemon/pipeline/place.h"
#include "transport/core/base/executor.h"
#include "transport/core/contracts/step.h"

namespace onecopy::pipeline {

struct Stage {
  std::unique_ptr<Mover> mover;
  unsigned depth = 1;  // moves under way at a time
};

// From where to where; one `between` fewer than there are stages.
struct Places {
  std::unique_ptr<Source> source;
  std::vector<std::unique_ptr<Between>> between = {};
  std::unique_ptr<Destination> destination;
};

// What a chain did.
struct ChainReport {
  Status status;
  uint64_t bytes = 0;    // that reached the last place
  uint64_t arrived = 0;  // as Destination::arrived, of the last place
  std::vector<ExecutedStep> steps;
  std::vector<uint64_t> lane_bytes;  // by lane of the link
  double seconds = 0;                // from Start to the end of the last move
  double held_seconds = 0;           // of them, by its pace
};

// Lives on its executor. Start, Stop, bytes_done, arrived and held are for any thread; the chain
// keeps itself alive from Start to its end. Its places go when it ends, on the executor; its movers
// may hold routes, so let the last reference go on a thread that may block.
class Chain : public std::enable_shared_from_this<Chain> {
 public:
  using Done = UniqueFunction<void(ChainReport)>;

  Chain(Executor& executor, Places places, std::vector<Stage> stages);

  // How fast bytes may leave the first place; before Start. Null: as fast as they can.
  void SetPace(std::shared_ptr<Pace> pace) { pace_ = std::move(pace); }

  // `done` runs once, on the executor, when nothing moves any more: because the last place is
  // complete, a move failed, or the chain was stopped.
  void Start(Done done);
  // Ends the chain early with this failure; one that has ended is left alone.
  void Stop(Status why);

  uint64_t bytes_done() const { return bytes_done_.load(std::memory_order_relaxed); }
  // As ChainReport::arrived, so far.
  uint64_t arrived() const { return arrived_.load(std::memory_order_relaxed); }
  // Whether its pace holds it back now, or has done so before.
  bool held() const { return held_.load(std::memory_order_relaxed); }
  bool was_held() const { return was_held_.load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;

  void Pump();
  bool StartMove(size_t stage);
  bool MayTake(uint64_t bytes);
  void GoOn();
  void EndMove(size_t stage, const Chunk& from, const Chunk& to, Moved moved);
  void CountLane(unsigned lane, uint64_t bytes);
  void Fail(Status why);
  void FinishIfIdle();
  void Finish();

  Executor& executor_;
  std::shared_ptr<Pace> pace_;
  uint64_t paid_ = 0;               // bytes that may leave the first place
  Clock::time_point held_since_{};  // where it is held
  double held_seconds_ = 0;         // before that
  std::atomic<bool> held_{false};
  std::atomic<bool> was_held_{false};
  Places places_;                 // gone once the chain has ended
  std::vector<Source*> sources_;  // of them, by stage
  std::vector<Sink*> sinks_;
  const std::vector<Stage> stages_;
  std::vector<unsigned> moving_;  // by stage
  unsigned moving_total_ = 0;
  bool pumping_ = false;
  bool pump_again_ = false;
  Status failure_;
  bool finishing_ = false;
  Clock::time_point started_;
  Clock::time_point last_move_;
  std::vector<StepTally> tallies_;  // by stage: equal steps of two stages are two
  std::vector<uint64_t> lane_bytes_;
  std::atomic<uint64_t> bytes_done_{0};
  std::atomic<uint64_t> arrived_{0};
  std::shared_ptr<Chain> self_;  // while it runs
  Done done_;
};

}  // namespace onecopy::pipeline
