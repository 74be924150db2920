// Moves chunks from one place to the next.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "daemon/pipeline/place.h"
#include "transport/core/contracts/link.h"
#include "transport/core/contracts/memory.h"
#include "transport/core/ranges/layout.h"

namespace onecopy::pipeline {

// What a move did.
struct Moved {
  Status status;
  StepList steps;
  int lane = -1;  // of the link, where there is one
  // Instead, of a move over several lanes: what each carried.
  std::vector<std::pair<unsigned, uint64_t>> lane_bytes = {};
  // Instead of `steps`, of a move in several parts: what took which.
  std::vector<std::pair<StepList, uint64_t>> step_bytes = {};
};

// How the bytes lie at the two ends of a mover; null: in one piece.
struct Layouts {
  LayoutRef from;
  LayoutRef to;

  bool none() const { return from == nullptr && to == nullptr; }
};

// Lives on its chain's executor; Move never completes before it has returned.
class Mover {
 public:
  using Done = UniqueFunction<void(Moved)>;

  virtual ~Mover() = default;

  // `done` runs exactly once, on the chain's executor, when the hardware has let go of both ends.
  virtual void Move(const Chunk& from, const Chunk& to, Done done) = 0;
  // What is under way should end early, if it can.
  virtual void Cancel() {}
};

// A memory's copy. The chunks lie in the regions that the route was prepared for.
class CopyMover final : public Mover {
 public:
  CopyMover(std::shared_ptr<CopyRoute> route, Executor& executor, Layouts layouts = {})
      : route_(std::move(route)), executor_(executor), layouts_(std::move(layouts)) {}
  void Move(const Chunk& from, const Chunk& to, Done done) override;
  void Cancel() override { route_->Cancel(); }

 private:
  const std::shared_ptr<CopyRoute> route_;
  Executor& executor_;
  const Layouts layouts_;
};

// A link's get, into `region`, or one for each piece of a chunk that does not lie in one piece at
// both ends, or is longer than `piece_bytes`. The chain's executor is the connection's.
class GetMover final : public Mover {
 public:
  // `lane_rates` and `flow` as in GetRequest.
  GetMover(std::shared_ptr<Connection> connection, ChannelId channel, RemoteKey key,
           RegionRef region, std::vector<double> lane_rates, const Flow& flow, Layouts layouts,
           uint64_t piece_bytes);
  void Move(const Chunk& from, const Chunk& to, Done done) override;
  void Cancel() override { connection_->CancelGets(channel_); }

 private:
  std::vector<StridedCopy> PiecesOf(const Chunk& from, const Chunk& to) const;
  void GetMany(const std::vector<StridedCopy>& pieces, const RemoteKey& key, Done done);

  const std::shared_ptr<Connection> connection_;
  const ChannelId channel_;
  const RemoteKey key_;
  const RegionRef region_;
  const std::vector<double> lane_rates_;
  const Flow flow_;
  const Layouts layouts_;
  const uint64_t piece_bytes_;
};

}  // namespace onecopy::pipeline
