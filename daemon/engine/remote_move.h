// A move from another node to this one: connects, has the source prepared, pulls, and has it
// finished.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "daemon/engine/connections.h"
#include "daemon/engine/move.h"
#include "daemon/engine/parts.h"
#include "daemon/engine/peer_api.h"
#include "daemon/engine/source_half.h"
#include "daemon/pipeline/channel.h"
#include "daemon/pipeline/places.h"
#include "daemon/plan/path.h"
#include "daemon/plan/wire.h"

namespace onecopy::engine {

class RemoteMove final : public Move, public std::enable_shared_from_this<RemoteMove> {
 public:
  struct Order {
    plan::Path path;
    std::string source_node;
    std::string ticket;
    bool checksum = false;           // of the source's range, afterwards
    std::string client_buffer = {};  // the destination's name, where a client registered it
    plan::WireEnd source_memory = {};
    std::optional<std::chrono::milliseconds> deadline;
    TransferInfo transfer;  // for the source's own list
    ScatterRef ranges;      // null: all of both ends

    // Where the source's bytes lie in what is opened to this node, and how long that is.
    LayoutRef source_layout() const;
    uint64_t source_bytes(const Area& destination) const {
      return ranges == nullptr ? destination.span.bytes : ranges->source.extent().bytes;
    }
  };

  // `destination` has the payload's length.
  RemoteMove(Parts& parts, Order order, Area destination);

  void Start(Task running, Done done) override;
  void Stop(const Status& why) override;
  uint64_t bytes_done() const override { return chain_ == nullptr ? 0 : chain_->bytes_done(); }

 private:
  void TakeSlots();
  void PrepareRoute();
  void RegisterTarget();
  void AskSource();
  void Run(PrepareReply prepared);
  std::vector<double> LaneRates() const;  // see plan::LaneRates
  void GatherEvidence(UniqueFunction<void()> then);
  void FinishSource();
  // Bytes that a network device wrote into a GPU's memory, before anybody reads them.
  void FlushTarget();
  void End();
  // True when the move has been stopped or has failed meanwhile, and has been brought to its end.
  bool Over(const Status& step = {});

  Parts& parts_;
  const Order order_;
  Area destination_;
  Task running_;
  Done done_;

  std::optional<Connections::Use> use_;
  ChannelId channel_id_ = 0;
  std::unique_ptr<pipeline::Channel> channel_;
  std::optional<pipeline::SlotLease> lease_;
  std::shared_ptr<CopyRoute> route_;  // from the slots to the destination
  std::shared_ptr<SourceHalf> source_half_;
  PrepareReply source_;
  std::shared_ptr<pipeline::Chain> chain_;
  std::map<std::string, uint64_t> counters_before_;
  MoveOutcome outcome_;
  Status stopped_;
  std::shared_ptr<RemoteMove> self_;
};

}  // namespace onecopy::engine
