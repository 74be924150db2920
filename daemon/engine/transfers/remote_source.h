// The other node's half of a move to this one, as this one asks for it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/move.h"
#include "daemon/engine/peering/peers.h"

namespace onecopy::engine {

// Engine thread.
class RemoteSource : public std::enable_shared_from_this<RemoteSource> {
 public:
  RemoteSource(Context& context, Peers& peers, std::string node, TransferId id, bool checksum,
               bool unproven)
      : context_(context),
        peers_(peers),
        node_(std::move(node)),
        id_(std::move(id)),
        checksum_(checksum),
        unproven_(unproven) {}

  // Once.
  void Prepare(PrepareRequest request, Reply<PrepareReply> reply);
  // What the source says it is going to execute.
  void Promise(std::vector<ExecutedStep> steps) { promised_ = std::move(steps); }

  // Has the source let go, if it holds anything, and adds what it did and saw to `outcome`, of a
  // move of `bytes`. `stopped`: somebody wanted the move to end, and has been promised that it does
  // soon, even if the source is what does not answer.
  void Finish(bool stopped, uint64_t bytes, MoveOutcome outcome, Move::Done done);

 private:
  void Finished(bool stopped, uint64_t bytes, Result<FinishReply> reply);
  void End();

  Context& context_;
  Peers& peers_;
  const std::string node_;
  const TransferId id_;
  const bool checksum_;  // asked for at the end of this move
  const bool unproven_;
  ChannelId channel_ = 0;  // of the attempt
  bool prepared_ = false;  // it may hold something for us: it must be told the end
  std::vector<ExecutedStep> promised_;
  MoveOutcome outcome_;
  Move::Done done_;
};

}  // namespace onecopy::engine
