// The destination's part of a transfer, which is the deciding one: has the bytes moved, by another
// path if the first turns out impossible, and says what became of it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/arrivals/arrivals.h"
#include "daemon/engine/base/move.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/probing/path_rates.h"
#include "daemon/engine/probing/rate_watch.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/records.h"
#include "daemon/engine/staging/checksum.h"
#include "daemon/engine/transfers/destination_info.h"
#include "daemon/engine/transfers/destination_plans.h"
#include "daemon/engine/transfers/mends.h"
#include "daemon/engine/transfers/moves.h"
#include "daemon/engine/transfers/proof.h"
#include "daemon/engine/transfers/reporter.h"
#include "daemon/engine/transfers/transfers.h"
#include "daemon/engine/transfers/tries.h"
#include "daemon/plan/planner.h"

namespace onecopy::engine {

// Engine thread.
class DestinationRun final : public Run, public std::enable_shared_from_this<DestinationRun> {
 public:
  // What has been checked, found and planned before the transfer was accepted.
  struct Params {
    StartRequest request;
    plan::Path plan;
    BufferId buffer;
    Area destination;
    std::string client_buffer = {};  // the destination's name, where a client registered it
    // When the source is on this node too: its bytes, held like the destination's.
    std::optional<BufferId> source_buffer;
    std::optional<Area> source_area;
    bool recorded = false;     // the next process can resume it
    bool tell = true;          // whether it is an arrival by itself: not a part of several buffers'
    Arrivals::Room room = {};  // where its arrival must not be left out
  };

  struct Needs {
    Context& context;
    Peers& peers;
    Transfers& transfers;
    Buffers& buffers;
    Arrivals& arrivals;
    Checksums& checksums;
    PathRates& path_rates;
    RateWatch& rate_watch;
    Moves& moves;
    Records& records;
  };

  DestinationRun(const Needs& needs, Params params);

  // Plans again, with what has turned out meanwhile.
  using Replan = DestinationPlans::MakePlanAgain;
  void Start(std::shared_ptr<Reporter> reporter, Replan replan);
  // Resumes a transfer that a previous process of this daemon began by `path`: waits until the
  // source's node answers, calls `learn` for the path, and moves the bytes behind `arrived`.
  using Learn = std::function<void(Reply<plan::Path>)>;
  void Resume(std::shared_ptr<Reporter> reporter, Replan replan, Learn learn, uint64_t arrived,
              const std::string& path);

  void Cancel(const Status& why) override;
  void Leave(const Status& why) override;
  void Tick() override;
  void LoseReading(const Connection& connection, const Status& why) override;

 private:
  // What has kept it from its end so far.
  std::string WhatItWaitsFor() const;
  // What has arrived and is sent once more.
  std::string ArrivedWrong() const;
  bool IsLocal() const { return params_.source_area.has_value(); }
  void Begin();
  void OnRunning();
  // All bytes have arrived: begins the destination's checksum.
  void OnLanded();
  void OnMoved(MoveOutcome outcome);
  // `unknown`: the source's node did not know the ticket, and no byte had moved.
  void OnFailed(MoveOutcome outcome, bool unknown);
  // Stops a checksum that has begun. Runs `then` once it reads no more memory.
  void DropSum(Task then);
  void StopSums();
  // Where a connection was lost: what has not arrived once more, over another one. That is bounded
  // in number and by the stall timeout; or, where something has arrived, by resume_for.
  bool MayTryAgain(const MoveOutcome& outcome) const;
  void TryAgain(const MoveOutcome& outcome);
  void BeginWhenConnected(const Status& failure);
  // Whether it may wait (longer) for a peer or a link that was lost, where something has arrived.
  bool MayWait(bool arrived) const;
  // Of this transfer, or of the larger one whose part it is.
  bool SomeArrived() const;
  void NoteArrived(uint64_t arrived);
  // Records how much has arrived, for the next process of this daemon.
  void RecordArrived(uint64_t arrived);
  // A previous process began the transfer, and this one has not planned a path yet.
  bool IsUnplanned() const { return params_.plan.path.empty(); }
  void PlanAndBegin();
  // All of what was asked for has arrived.
  void OnArrived(MoveOutcome outcome);
  void Verify(MoveOutcome outcome);
  void OnProven(const Status& proven, const std::optional<ChecksumResult>& sums);
  void End(const Status& status);
  void LetGo();  // of what it holds
  // Everything is there: before anybody hears that the transfer has ended, so that what its
  // initiator does next comes after it.
  void TellArrival();
  TransferRecord& record();
  Owner payer() { return needs_.transfers.PayerOf(record()); }
  Flow flow();

  const Needs needs_;
  Params params_;
  Replan replan_;
  Learn learn_;                         // set if a previous process began the transfer
  uint64_t recorded_arrived_ = 0;       // bytes that the record says have arrived
  std::shared_ptr<TransferPace> pace_;  // of all tries
  std::shared_ptr<Move> move_;
  std::shared_ptr<DestinationSum> sum_;  // from the last byte on, until the proof has it
  std::shared_ptr<Proof> proof_;         // once all bytes have arrived
  Tries tries_;
  Mends mends_;
  DestinationInfo info_;
  std::vector<plan::Exclusion> excluded_;
  os::Clock::time_point accepted_;
  os::Clock::time_point progressed_;
  uint64_t life_seen_ = 0;
  bool between_ = false;  // waits for the next try
  bool ended_ = false;
  bool left_ = false;  // to the next process
  Status cancelled_;
  os::EventLoop::TimerId deadline_timer_ = 0;
  Checksums::StopFlag stop_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace onecopy::engine
