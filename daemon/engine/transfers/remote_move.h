// A move from another node to this one: connects, has the source prepared, pulls, and has it
// finished.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/base/move.h"
#include "daemon/engine/peering/catalog.h"
#include "daemon/engine/probing/planning.h"
#include "daemon/engine/staging/imported_range.h"
#include "daemon/engine/staging/slots.h"
#include "daemon/engine/transfers/remote_source.h"
#include "daemon/engine/transfers/series.h"
#include "daemon/pipeline/channel.h"
#include "daemon/pipeline/places.h"
#include "daemon/pipeline/slot_share.h"
#include "daemon/plan/path.h"
#include "daemon/plan/wire.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::engine {

class RemoteMove final : public Move, public std::enable_shared_from_this<RemoteMove> {
 public:
  struct Params {
    plan::Path path;
    std::string source_node;
    std::string ticket;
    bool checksum = false;           // of the source's range, afterwards
    std::string client_buffer = {};  // the destination's name, where a client registered it
    Owner payer;
    Flow flow = {};
    plan::WireEnd source_memory = {};
    std::optional<std::chrono::milliseconds> deadline;
    TransferInfo transfer;               // for the source's own list
    ScatterRef ranges;                   // null: all of both ends
    std::string memory_id = {};          // of the source's memory; see Reservation
    std::shared_ptr<TransferPace> pace;  // never null
    uint64_t arrived = 0;   // of the payload's beginning, by earlier moves: not moved again
    uint64_t until = 0;     // where in the payload it ends; 0: at its end
    bool unproven = false;  // afterwards parts of it may be asked for again

    // Where the source's bytes lie in what is opened to this node, and how long that is.
    LayoutRef source_layout() const;
    uint64_t source_bytes(const Area& destination) const {
      return ranges == nullptr ? destination.span.bytes : ranges->source.extent().bytes;
    }
  };

  struct Needs {
    Context& context;
    const Catalog& catalog;
    Peers& peers;
    ImportedRange::Needs ranges;
    Slots& slots;
    const Planning& planning;
    const Series& series;
  };

  // `destination` has the payload's length.
  RemoteMove(const Needs& needs, Params params, Area destination);

  void Start(Task running, Done done) override;
  // Ends it at once where nothing moves yet; what a slow call uses meanwhile, that call keeps.
  void Stop(const Status& why) override;
  uint64_t bytes_done() const override {
    return chain_ == nullptr ? moved_ : skip_ + chain_->bytes_done();
  }
  uint64_t arrived() const override { return chain_ == nullptr ? 0 : chain_->arrived(); }
  std::vector<LaneBytes> lanes() const override;
  uint64_t life() const override;
  std::string waits_for() const override;
  void LoseConnection(const Connection& connection, const Status& why) override;

 private:
  // What it does before bytes move.
  enum class Phase { kConnecting, kMemory, kSource };

  void Connected();
  void Prepare(const RegionRef& slab);
  void RegisterTarget();
  void AskSource();
  // The end of what is moved, in the payload.
  uint64_t end() const { return params_.until != 0 ? params_.until : destination_.payload(); }
  // What the source says of where it begins.
  Status BeginAt(uint64_t begins_at_bytes);
  // What the source says over the channel, except for chunks.
  void OnControl(const pipeline::Message& message);
  void RunIfReady();
  void Run();
  std::unique_ptr<pipeline::Source> SourcePlace(const pipeline::Layouts& gets, uint64_t bytes);
  void OpenShare();
  plan::Wire WireTaken() const;
  void GatherEvidence(UniqueFunction<void()> then);
  void FinishSource();
  // Bytes that a network device wrote into a GPU's memory, before anybody reads them.
  void FlushTarget();
  void End();
  // True when the move has been stopped or has failed meanwhile, and has been brought to its end.
  bool Over(const Status& step = {});
  const RegionRef& target() const { return slab_ == nullptr ? destination_.span.region : slab_; }

  const Needs needs_;
  const Params params_;
  Area destination_;
  const std::shared_ptr<Slots> slots_;  // where it is staged
  Task running_;
  Done done_;

  Phase phase_ = Phase::kConnecting;
  const os::Clock::time_point started_ = os::Clock::now();
  std::shared_ptr<ImportedRange> range_;  // until the end
  Planning::Lanes lanes_;
  ChannelId channel_id_ = 0;
  std::unique_ptr<pipeline::Channel> channel_;
  RegionRef slab_;                    // where the destination is staged
  std::shared_ptr<CopyRoute> route_;  // from the slots to the destination
  Flow copies_;                       // of that route
  pipeline::SlotShareRef share_;
  std::shared_ptr<RemoteSource> remote_source_;
  bool answered_ = false;  // the source's node, to Prepare
  uint64_t skip_ = 0;      // of the payload's beginning: what neither side moves again
  std::optional<pipeline::ReadyMessage> ready_;
  std::optional<pipeline::WaitingMessage> waiting_;  // what the source said last
  uint64_t waiting_at_ = 0;                          // bytes that had moved by then
  uint64_t heard_ = 0;                               // messages
  std::shared_ptr<RemoteKey> first_key_ = std::make_shared<RemoteKey>();
  std::shared_ptr<pipeline::Chain> chain_;
  uint64_t moved_ = 0;  // up to where, once the chain has gone
  std::map<std::string, uint64_t> counters_before_;
  MoveOutcome outcome_;
  Status stopped_;
  bool finishing_ = false;
  std::shared_ptr<RemoteMove> self_;
};

}  // namespace onecopy::engine
