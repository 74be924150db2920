// What others see of a transfer that this node receives: its progress, then its receipt.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/move.h"
#include "daemon/engine/probing/rate_watch.h"
#include "daemon/engine/transfers/reporter.h"
#include "daemon/engine/transfers/transfers.h"
#include "daemon/engine/transfers/tries.h"
#include "daemon/plan/planner.h"

namespace onecopy::engine {

// Engine thread. Belongs to the transfer's run and writes into its record. Cannot fail. "Tells":
// informs the record's watchers and the reporter's nodes.
class DestinationInfo {
 public:
  // The run's own: each call uses their present values.
  struct Of {
    const StartRequest& request;
    const Area& destination;
    const plan::Path& plan;
    const Tries& tries;
  };

  DestinationInfo(Transfers& transfers, RateWatch& rate_watch, const Of& of)
      : transfers_(transfers), rate_watch_(rate_watch), of_(of) {}

  // Must come first.
  void SetReporter(std::shared_ptr<Reporter> reporter) { reporter_ = std::move(reporter); }
  // A previous process began the transfer by `path`. Informs only the record's watchers.
  void Resume(const std::string& path);
  // A try begins, at this pace.
  void Begin(std::shared_ptr<const TransferPace> pace);
  // Its first bytes are about to move. Tells that.
  void NoteRunning(const Move& move, double negotiation_seconds);
  // Tells how far it is and what it waits for, if that has changed.
  void NoteProgress(const Move& move);
  // Tells that the transfer waits for `what`, between two tries or at this daemon's end.
  void WaitFor(const std::string& what);

  // A try has ended: adds it to the receipt's list.
  void NoteAttempt(const std::string& outcome, uint64_t bytes);
  // Its connection was lost, and another try will follow. Tells that.
  void NoteLost(const MoveOutcome& outcome);
  // It was the last one, and failed.
  void NoteFailed(MoveOutcome outcome);
  // All bytes have arrived. If no other transfer disturbed this one, its rate is kept for later
  // plans; see RateWatch.
  void NoteMoved(MoveOutcome outcome);
  // What NoteMoved told of stays in the receipt, and what is sent next is added to it.
  void KeepMoved();
  // What NoteMoved told of since the last comparison was unlike the source.
  void NoteMismatch();
  // So many bytes of it are sent again.
  void NoteSentAgain(uint64_t bytes);

  // Informs the reporter's nodes alone.
  void Report() { reporter_->Report(false); }
  plan::PathKey WayTaken() const;

 private:
  TransferRecord& record() { return *transfers_.Find(of_.request.id); }
  std::string SourceAnswers() const;
  // Into the receipt: the last try, and what lost tries moved.
  void Describe(MoveOutcome outcome);
  void NoteRate(bool source_shared);

  Transfers& transfers_;
  RateWatch& rate_watch_;
  const Of of_;
  std::shared_ptr<Reporter> reporter_;
  std::shared_ptr<const TransferPace> pace_;  // of all tries
  double held_seconds_ = 0;                   // by it, in all tries
  bool resumed_ = false;                      // a previous process began the transfer
  Receipt lost_;                              // steps, lanes and seconds of all lost tries
  double lost_held_seconds_ = 0;              // of these seconds
  int lost_tries_ = 0;                        // that moved bytes
  bool kept_ = false;                         // lost_ has what arrived, too
  uint64_t sent_again_bytes_ = 0;
  size_t compared_ = 0;  // attempts whose bytes have been compared
  uint64_t resumed_at_ =
      0;  // where the payload was continued last, before any of it was sent again
  uint64_t bytes_seen_ = 0;
  os::Clock::time_point waits_told_;
  uint64_t begun_ = 0;   // runs of this node when the bytes began to move
  bool shared_ = false;  // others ran then
};

}  // namespace onecopy::engine
