// The moving of one transfer's bytes, by a path that has been chosen.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/api/types.h"
#include "daemon/engine/base/owners.h"
#include "daemon/engine/base/paces.h"
#include "daemon/pipeline/chain.h"
#include "transport/core/contracts/link.h"
#include "transport/core/contracts/memory.h"
#include "transport/digest/tree.h"

namespace onecopy::engine {

// Memory that a payload leaves or reaches: all of the span, or what a layout says of it.
struct Area {
  Span span;
  LayoutRef layout;  // null: all of it

  uint64_t payload() const { return layout == nullptr ? span.bytes : layout->bytes(); }
};

// For whom bytes move.
struct MoveFor {
  std::string owner;                        // whose they are: see Slots::Params
  Owner payer;                              // on whose account they move
  Flow flow = {};                           // whose turn they take
  std::shared_ptr<TransferPace> pace = {};  // how fast; null: unlimited
};

// What a move did.
struct MoveOutcome {
  Status status;
  bool connected = false;  // to the other node; set where there is one
  bool began = false;      // whether bytes may have moved; if not, another path can still be taken
  uint64_t bytes = 0;      // that reached their place
  // From the payload's beginning on without a gap: those of this move, and those it was told of.
  uint64_t arrived = 0;
  std::vector<ExecutedStep> steps;
  std::vector<LaneBytes> lanes;
  double seconds = 0;
  double held_seconds = 0;  // of them, by rate limits
  LinkAccess access;
  std::map<std::string, std::string> evidence;
  // Where bytes took another path than was planned, without its mover's doing: that one, and why.
  std::optional<Refusal> not_taken;
  std::string taken;
  digest::TreeSum source_checksum = {};  // where the source's node was asked for it
  bool source_shared = false;  // whether other transfers ran there meanwhile, or that is not known

  // Of a move that failed before any byte could move.
  static MoveOutcome NotBegun(Status why) {
    MoveOutcome outcome;
    outcome.status = std::move(why);
    return outcome;
  }
};

// Of a staged transfer and of a timed read: less is not worth its messages.
inline constexpr uint64_t kMinChunkBytes = 4096;
// Of one chunk, where both sides are strided by unlike elements.
inline constexpr uint64_t kMaxCopies = 65536;
// A driver that has not made memory ready by then, counted in stall timeouts, never will.
inline constexpr int kMemoryPatience = 10;

// What copies add to a move's life while some wait for their turn: those before them always end.
inline uint64_t LifeOfWaiting(const Flow& flow) {
  return flow.waiting != nullptr && *flow.waiting > 0
             ? static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count())
             : 0;
}

// Likewise a chain that keeps to a rate limit.
inline uint64_t LifeOfHeld(const std::shared_ptr<pipeline::Chain>& chain) {
  return chain != nullptr && chain->held()
             ? static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count())
             : 0;
}

// Engine thread. Keeps itself alive from Start until `done`.
class Move {
 public:
  using Done = UniqueFunction<void(MoveOutcome)>;

  virtual ~Move() = default;

  // `running` runs when the first bytes are about to move; `done` once, when nothing moves any more
  // and everything that was used is released.
  virtual void Start(Task running, Done done) = 0;
  virtual void Stop(const Status& why) = 0;
  virtual uint64_t bytes_done() const = 0;
  // As MoveOutcome::arrived, so far; 0 if it is not known.
  virtual uint64_t arrived() const { return 0; }
  // From `running` on: what carries the bytes, which are not counted yet.
  virtual std::vector<LaneBytes> lanes() const { return {}; }
  // Changes as long as anything happens that this move gets on by, be it for others first.
  virtual uint64_t life() const { return bytes_done(); }
  // What keeps its bytes from moving just now, in words; empty: nothing. Never empty before
  // `running`.
  virtual std::string waits_for() const = 0;
  // A connection on which this node reads is gone.
  virtual void LoseConnection(const Connection&, const Status&) {}

  // Call it before Start. `landed` runs once, when all bytes have arrived and before the move asks
  // the source's node for its result. `done` may still report a failure.
  void OnLanded(Task landed) { landed_ = std::move(landed); }

 protected:
  void Landed() {
    if (landed_) std::exchange(landed_, nullptr)();
  }

 private:
  Task landed_;
};

// In words, as for waits_for.
std::string WaitsForSlots(const std::string& node, uint32_t ahead);

// Of a chain that has been held back: its limits. Empty where it never was, or none limits it now.
std::string WaitsForRate(const pipeline::Chain& chain, const TransferPace& pace);

// Makes sure that the route is what its steps say, by the first piece of what it is going to copy
// (see CopyRoute::Prove). Blocks. `there` is where the source's area begins in the route's region.
Status ProveRoute(CopyRoute& route, uint64_t there, const LayoutRef& from, const Area& to);

// What a chain says, in a receipt's terms; steps come after those that are there already.
void AddReport(const pipeline::ChainReport& report, const std::vector<LaneInfo>& lanes,
               MoveOutcome* outcome);

}  // namespace onecopy::engine
