#include "daemon/engine/transfers/remote_transfers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/transfers/transfers.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

// The destination keeps the deadline as well; its report of that should come before this node gives
// up.
constexpr std::chrono::milliseconds kReportGrace{500};
// For the answer of a destination that is asked what became of a transfer.
constexpr std::chrono::milliseconds kAnswerGrace{1000};
// Times that a destination says that it does not know the transfer, before that is final: it may
// have restarted, which a greeting will tell soon.
constexpr int kMaxUnknown = 3;

}  // namespace

void RemoteTransfers::Await(TransferRecord& record, const std::string& destination,
                            std::optional<std::chrono::milliseconds> deadline) {
  const TransferId id = record.info.id;
  Awaited& awaited = awaited_[id];
  awaited.destination = destination;
  if (!deadline || awaited.deadline_timer != 0) return;
  awaited.deadline_timer = context_.loop.RunAfter(*deadline + kReportGrace, [this, id] {
    const auto found = awaited_.find(id);
    if (found == awaited_.end()) return;
    found->second.deadline_timer = 0;
    // Its report may have been lost: a destination that is there says what became of it.
    const std::string destination = found->second.destination;
    if (peers_.IsConnected(destination)) Ask(id, destination);
    if (!awaited_.contains(id)) return;
    awaited_.at(id).deadline_timer = context_.loop.RunAfter(kAnswerGrace, [this, id] {
      const auto silent = awaited_.find(id);
      if (silent == awaited_.end()) return;
      silent->second.deadline_timer = 0;
      GiveUp(id,
             {Code::kDeadlineExceeded, reasons::kDeadline, "the transfer's deadline has passed"});
    });
  });
}

Status RemoteTransfers::OnReport(const std::string& caller, const TransferInfo& said) {
  const auto found = awaited_.find(said.id);
  TransferRecord* record = transfers_.Find(said.id);
  if (found == awaited_.end() || found->second.destination != caller || record == nullptr) {
    return {Code::kNotFound, reasons::kTransferNotFound,
            "node " + context_.node() + " does not expect a report from node " + caller +
                " about that transfer"};
  }
  found->second.heard = true;
  Apply(*record, said);
  return OkStatus();
}

void RemoteTransfers::AskWhenSilent(const TransferId& id) {
  const auto begun = awaited_.find(id);
  if (begun == awaited_.end() || begun->second.silence_timer != 0) return;
  begun->second.heard = false;
  begun->second.silence_timer = context_.loop.RunAfter(context_.options.heartbeat, [this, id] {
    const auto found = awaited_.find(id);
    if (found == awaited_.end()) return;
    found->second.silence_timer = 0;
    const bool silent = !found->second.heard;
    AskWhenSilent(id);
    if (silent) Ask(id, std::string(found->second.destination));
  });
}

void RemoteTransfers::Ask(const TransferId& id, const std::string& node) {
  Result<PeerApi*> peer = peers_.Find(node);
  if (!peer.ok()) return;  // asked when they next meet
  (*peer)->Query(context_.node(), id, [this, id, node](Result<TransferInfo> said) {
    TransferRecord* asked = transfers_.Find(id);
    const auto found = awaited_.find(id);
    if (asked == nullptr || found == awaited_.end()) return;
    if (said.ok()) return Apply(*asked, *said);
    if (said.status().code() != Code::kNotFound) return;
    if (const Status restarted = found->second.restarted; !restarted.ok()) {
      return Forgotten(id, restarted);
    }
    if (++found->second.unknown < kMaxUnknown) return;
    Forgotten(id, said.status().WithContext("node " + node + " does not know the transfer"));
  });
}

void RemoteTransfers::Forgotten(const TransferId& id, const Status& why) {
  TransferRecord* record = transfers_.Find(id);
  if (record == nullptr || !awaited_.contains(id)) return;
  const auto fail = [this, id, why] {
    TransferRecord* failed = transfers_.Find(id);
    if (failed == nullptr || !awaited_.contains(id)) return;
    Conclude(id);
    transfers_.Conclude(*failed, why);
  };
  const std::string& source = record->info.source.node;
  const bool third = !context_.IsSelf(source) && source != awaited_.at(id).destination;
  const Result<PeerApi*> peer = third && peers_.IsConnected(source)
                                    ? peers_.Find(source)
                                    : Status(Code::kNotFound, reasons::kPeerNotFound, "");
  if (!peer.ok()) return fail();
  (*peer)->Query(context_.node(), id, [this, id, fail](Result<TransferInfo> said) {
    TransferRecord* asked = transfers_.Find(id);
    if (asked == nullptr || !awaited_.contains(id)) return;
    if (!said.ok() || !IsFinal(said->state)) return fail();
    Apply(*asked, *said);
  });
}

// Everything but what this node knows better: its own part in it, who owns it, since when, and how
// long it took from then on.
void RemoteTransfers::Apply(TransferRecord& record, const TransferInfo& said) {
  TransferInfo& info = record.info;
  info.state = said.state;
  // As it was ordered it may lack its length, and a report may be quicker than the order's answer.
  info.destination.buffer = said.destination.buffer;
  info.destination.offset_bytes = said.destination.offset_bytes;
  info.destination.bytes = said.destination.bytes;
  info.bytes_done = said.bytes_done;
  if (record.series) {
    info.bytes = said.bytes;
    info.parts = said.parts;
    info.source_buffers = said.source_buffers;
    info.destination_buffers = said.destination_buffers;
    info.source.bytes = said.source.bytes;
  }
  info.plan = said.plan;
  const double asked_seconds = info.receipt.asked_seconds;
  info.receipt = said.receipt;
  info.receipt.asked_seconds = asked_seconds;  // by this node's clock
  info.error = said.error;
  info.waits_for = said.waits_for;
  if (IsFinal(said.state)) Conclude(info.id);
  transfers_.Changed(record);
}

void RemoteTransfers::Conclude(const TransferId& id) {
  const auto found = awaited_.find(id);
  if (found == awaited_.end()) return;
  context_.loop.CancelTimer(found->second.deadline_timer);
  context_.loop.CancelTimer(found->second.lost_timer);
  context_.loop.CancelTimer(found->second.silence_timer);
  awaited_.erase(found);
}

void RemoteTransfers::GiveUp(const TransferId& id, const Status& why) {
  TransferRecord* record = transfers_.Find(id);
  if (record == nullptr || IsFinal(record->info.state) ||
      record->info.state == TransferState::kUnconfirmed)
    return;
  const std::string destination = awaited_.at(id).destination;
  const bool heard = peers_.IsConnected(destination);
  const Status unconfirmed(
      Code::kDeadlineExceeded, reasons::kUnconfirmed,
      "node " + destination + " decides this transfer's outcome and " +
          (heard ? "has not reported how it ended: " : "does not answer: ") + why.message(),
      "the outcome appears here when node " + destination + " answers again; or ask there");
  // To the destination it says why, not that this node does not know the outcome.
  if (record->run != nullptr) record->run->Cancel(why);
  record->info.state = TransferState::kUnconfirmed;
  record->info.error = unconfirmed;
  record->info.waits_for.clear();
  log::Warning("transfer unconfirmed", {{"transfer", id.str()},
                                        {"peer", destination},
                                        {"why", why.message()},
                                        {"trace", record->info.trace}});
  transfers_.Changed(*record);
  transfers_.Shelve(*record);
}

void RemoteTransfers::PeerLost(const std::string& node) {
  for (auto& [id, awaited] : awaited_) {
    if (awaited.destination == node) LimitAbsence(id, awaited);
  }
}

void RemoteTransfers::AwaitPeer(const TransferId& id) { LimitAbsence(id, awaited_.at(id)); }

void RemoteTransfers::LimitAbsence(const TransferId& id, Awaited& awaited) {
  if (awaited.lost_timer != 0) return;
  const TransferRecord* record = transfers_.Find(id);
  const bool resumes = record != nullptr && (record->info.bytes_done > 0 || record->restored);
  const auto patience = resumes
                            ? std::max(context_.options.stall_timeout, context_.options.resume_for)
                            : context_.options.stall_timeout;
  awaited.lost_timer = context_.loop.RunAfter(patience, [this, id] {
    const auto found = awaited_.find(id);
    if (found == awaited_.end()) return;
    found->second.lost_timer = 0;
    // Nothing that would have the destination begin again: the caller that waited may be
    // gone.
    GiveUp(id, {Code::kDeadlineExceeded, reasons::kStalled,
                "node " + found->second.destination + " has been out of reach for too long"});
  });
}

void RemoteTransfers::PeerGone(const std::string& node) {
  std::vector<TransferId> theirs;
  for (const auto& [id, awaited] : awaited_) {
    if (awaited.destination == node && awaited.lost_timer == 0) theirs.push_back(id);
  }
  for (const TransferId& id : theirs) {
    GiveUp(id, {Code::kUnavailable, reasons::kPeerDown, "node " + node + " has gone"});
  }
}

void RemoteTransfers::PeerMet(const std::string& node, bool restarted) {
  std::vector<TransferId> open;
  for (auto& [id, awaited] : awaited_) {
    if (awaited.destination != node) continue;
    context_.loop.CancelTimer(std::exchange(awaited.lost_timer, 0));
    open.push_back(id);
  }
  for (const TransferId& id : open) {
    TransferRecord* record = transfers_.Find(id);
    if (record == nullptr) continue;
    if (restarted) {
      awaited_.at(id).restarted = {
          Code::kAborted, reasons::kPeerRestarted,
          "node " + node +
              ", which decides this transfer's outcome, has restarted and does not know it",
          "look there for its buffers, create those that are lost, and start the transfer again"};
      AskWhenSilent(id);
    }
    Ask(id, node);
  }
}

std::string RemoteTransfers::DecidedBy(const TransferId& id) const {
  const auto found = awaited_.find(id);
  return found == awaited_.end() ? std::string() : found->second.destination;
}

std::set<std::string> RemoteTransfers::Deciders() const {
  std::set<std::string> deciders;
  for (const auto& [id, awaited] : awaited_) {
    const TransferRecord* record = transfers_.Find(id);
    const bool waits = record != nullptr && record->info.state != TransferState::kUnconfirmed;
    if (waits) deciders.insert(awaited.destination);
  }
  return deciders;
}

}  // namespace onecopy::engine
