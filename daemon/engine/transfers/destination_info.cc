#include "daemon/engine/transfers/destination_info.h"

#include <algorithm>
#include <utility>

#include "daemon/plan/ladder.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::engine {
namespace {

constexpr std::chrono::seconds kWaitsPause{1};

}  // namespace

std::string DestinationInfo::SourceAnswers() const {
  return "node " + of_.request.reservation.source.node + " to answer again";
}

void DestinationInfo::Resume(const std::string& path) {
  resumed_ = true;
  TransferInfo& info = record().info;
  info.receipt.attempts.push_back(
      {path, std::string(reasons::kPeerRestarted), of_.tries.arrived()});
  info.waits_for = SourceAnswers();
  transfers_.Changed(record());
}

void DestinationInfo::Begin(std::shared_ptr<const TransferPace> pace) {
  pace_ = std::move(pace);
  record().info.plan = of_.plan;
}

void DestinationInfo::NoteRunning(const Move& move, double negotiation_seconds) {
  begun_ = transfers_.begun();
  shared_ = transfers_.moving() > 1;
  TransferInfo& info = record().info;
  info.state = TransferState::kRunning;
  // Until the first byte: not of what is sent again.
  if (!kept_) info.receipt.negotiation_seconds = negotiation_seconds;
  info.receipt.lanes = move.lanes();
  transfers_.Changed(record());
  Report();
}

void DestinationInfo::NoteProgress(const Move& move) {
  TransferInfo& info = record().info;
  const uint64_t bytes = move.bytes_done();
  const os::Clock::time_point now = os::Clock::now();
  std::string waits_for = info.waits_for;
  // Others come and go before it all the time.
  if (waits_for.empty() || bytes != bytes_seen_ || now - waits_told_ >= kWaitsPause) {
    waits_for = move.waits_for();
    waits_told_ = now;
  }
  const bool news = waits_for != info.waits_for;
  if (bytes == bytes_seen_ && !news) return;
  bytes_seen_ = bytes;
  // What is moved once more had arrived before, and was told.
  info.bytes_done = std::max(info.bytes_done, bytes);
  info.waits_for = std::move(waits_for);
  transfers_.Changed(record());
  reporter_->Report(!news);
}

void DestinationInfo::WaitFor(const std::string& what) {
  record().info.waits_for = what;
  transfers_.Changed(record());
  Report();
}

void DestinationInfo::NoteAttempt(const std::string& outcome, uint64_t bytes) {
  auto& attempts = record().info.receipt.attempts;
  // A peer that is away for long is tried often.
  const bool same = of_.tries.many() && bytes == 0 && !attempts.empty() &&
                    attempts.back().bytes == 0 && attempts.back().path == of_.plan.path &&
                    attempts.back().outcome == outcome;
  if (!same) attempts.push_back({of_.plan.path, outcome, bytes});
}

void DestinationInfo::NoteLost(const MoveOutcome& outcome) {
  Describe(outcome);
  Receipt tried;
  tried.steps = outcome.steps;
  tried.lanes = outcome.lanes;
  MergeReceipt(tried, lost_);
  lost_.seconds += outcome.seconds;
  lost_held_seconds_ += outcome.held_seconds;
  if (outcome.began) ++lost_tries_;
  bytes_seen_ = 0;
  WaitFor(SourceAnswers());
}

void DestinationInfo::NoteFailed(MoveOutcome outcome) {
  record().info.bytes_done = std::max(record().info.bytes_done, outcome.bytes);
  Describe(std::move(outcome));
}

void DestinationInfo::NoteMoved(MoveOutcome outcome) {
  record().info.bytes_done = of_.destination.payload();
  NoteAttempt("SUCCEEDED", outcome.bytes);
  const bool source_shared = outcome.source_shared;
  Describe(std::move(outcome));
  NoteRate(source_shared);
}

void DestinationInfo::KeepMoved() {
  const Receipt& receipt = record().info.receipt;
  lost_ = {};
  lost_.steps = receipt.steps;
  lost_.lanes = receipt.lanes;
  lost_.seconds = receipt.seconds;
  lost_held_seconds_ = held_seconds_;
  kept_ = true;
}

void DestinationInfo::NoteMismatch() {
  auto& attempts = record().info.receipt.attempts;
  for (; compared_ < attempts.size(); ++compared_) {
    std::string& outcome = attempts[compared_].outcome;
    if (outcome == "SUCCEEDED") outcome = reasons::kChecksumMismatch;
  }
}

void DestinationInfo::NoteSentAgain(uint64_t bytes) {
  sent_again_bytes_ += bytes;
  KeepMoved();
}

void DestinationInfo::Describe(MoveOutcome outcome) {
  Receipt& receipt = record().info.receipt;
  const plan::Path& plan = of_.plan;
  if (of_.request.ranges != nullptr) {
    receipt.ranges = of_.request.ranges->ranges;
    receipt.merged_ranges = of_.request.ranges->merged_ranges;
  }
  receipt.path = outcome.taken.empty() ? plan.path : outcome.taken;
  receipt.link = plan.link;
  receipt.refused = plan.refused;
  if (outcome.not_taken) receipt.refused.push_back(*std::move(outcome.not_taken));
  receipt.registration = outcome.access.registration;
  receipt.key = outcome.access.key;
  receipt.encryption = outcome.access.encryption;
  receipt.lanes = std::move(outcome.lanes);
  receipt.seconds = outcome.seconds;
  receipt.evidence = std::move(outcome.evidence);
  held_seconds_ = outcome.held_seconds + lost_held_seconds_;
  if (held_seconds_ > 0) {
    const std::string limits = pace_->Describe();
    receipt.evidence["rate_limit"] = limits.empty() ? "lifted meanwhile" : limits;
    receipt.evidence["rate_limit_held_ms"] =
        std::to_string(static_cast<uint64_t>(held_seconds_ * 1e3));
  }
  if (!plan.tried_again.empty()) receipt.evidence["tried_again"] = plan.tried_again;
  receipt.steps = std::move(outcome.steps);
  if (of_.tries.arrived() > 0 || kept_) {
    MergeReceipt(lost_, receipt);
    receipt.seconds += lost_.seconds;
  }
  if (sent_again_bytes_ > 0) {
    receipt.evidence["sent_again"] =
        FormatBytes(sent_again_bytes_) + ", which had arrived unlike the source";
  }
  if (!kept_) resumed_at_ = of_.tries.arrived();
  if (resumed_at_ > 0) {
    receipt.evidence["resumed"] =
        "at byte " + std::to_string(resumed_at_) + ", after " +
        (resumed_ ? "a restart of node " + record().info.destination.node + "'s daemon and " : "") +
        std::to_string(lost_tries_) + " lost connections";
  }
  receipt.emulated = std::any_of(receipt.steps.begin(), receipt.steps.end(),
                                 [](const ExecutedStep& step) { return step.step.emulated; });
}

plan::PathKey DestinationInfo::WayTaken() const {
  const plan::Path& path = of_.plan;
  const Place& to = of_.destination.span.region->place();
  return {path.path,
          path.link,
          {of_.request.reservation.memory, of_.request.reservation.device},
          {to.kind, to.device},
          path.source_staged,
          path.destination_staged};
}

void DestinationInfo::NoteRate(bool source_shared) {
  // How fast a file is depends on where it lies, and on what of it is in memory already.
  if (plan::HasFile(of_.plan.path)) return;
  // Of what was held back, the rate says nothing of the path.
  if (pace_->limited() || held_seconds_ > 0) return;
  if (kept_) return;  // sent in parts
  const bool alone = !shared_ && !source_shared && transfers_.begun() == begun_;
  // Ranges are slower by what lies between them.
  if (!alone || of_.request.ranges != nullptr) return;
  rate_watch_.Note({of_.request.reservation.source.node, WayTaken(), of_.destination.payload(),
                    of_.plan.probed_bytes_per_second},
                   record().info);
}

}  // namespace onecopy::engine
