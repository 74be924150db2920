#include "daemon/engine/transfers/series.h"

#include <algorithm>
#include <set>
#include <utility>

#include "daemon/engine/base/context.h"
#include "daemon/engine/base/names.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/staging/checksum.h"
#include "daemon/engine/transfers/remote_transfers.h"
#include "daemon/engine/transfers/reporter.h"
#include "daemon/engine/transfers/transfers.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "onecopy/transfer.h"
#include "transport/digest/tree.h"
#include "transport/os/machine/machine.h"

namespace onecopy::engine {
namespace {

constexpr std::chrono::milliseconds kPartsGrace{500};
constexpr size_t kMaxEndedParts = 128;  // kept of one series

Status NoSeries(const std::string& node, const TransferId& id) {
  return {Code::kNotFound, reasons::kTransferNotFound,
          "node " + node + " does not have a series " + Printable(id.str()) + " of yours"};
}

// What the client does itself: between its file and its memory.
Step ClientStep(const TransferInfo& series) {
  const bool reads = !series.source.file.empty();
  Step step;
  step.node = reads ? series.source.node : series.destination.node;
  step.from = reads ? "file" : "host";
  step.to = reads ? "host" : "file";
  step.by = "client";
  return step;
}

// The latest part's plan is the series', with what the client does.
void TakePlan(const TransferInfo& part, TransferInfo& series) {
  if (!part.plan) return;
  series.plan = part.plan;
  std::vector<Step>& steps = series.plan->steps;
  const Step own = ClientStep(series);
  steps.insert(own.from == "file" ? steps.begin() : steps.end(), own);
}

}  // namespace

// While the series goes on, so that it is cancelled and drained like any transfer.
class Series::SeriesRun final : public Run {
 public:
  SeriesRun(Series& series, TransferId id) : series_(series), id_(std::move(id)) {}

  void Cancel(const Status& why) override { series_.Cancel(id_, why); }
  void Tick() override { series_.Tick(id_); }

 private:
  Series& series_;
  const TransferId id_;
};

struct Series::Deciding {
  SessionId session;
  Policy policy;
  bool checksum = false;
  Pacing pacing;
  std::optional<os::Clock::time_point> deadline;
  os::EventLoop::TimerId deadline_timer = 0;
  os::Clock::time_point begun = os::Clock::now();
  std::shared_ptr<Reporter> reporter;

  bool started = false;            // whether any part was
  std::set<TransferId> under_way;  // parts that are being ordered, or have not ended
  uint64_t bytes = 0;              // of the parts that have succeeded
  Receipt receipt;                 // likewise
  bool verified = true;            // every one of them
  bool ending = false;
  Status outcome;
  std::string sum;  // of the whole, by the client's word
};

Series::Series(Context& context, const Owners& owners, Peers& peers, Transfers& transfers,
               RemoteTransfers& remote_transfers)
    : context_(context),
      owners_(owners),
      peers_(peers),
      transfers_(transfers),
      remote_transfers_(remote_transfers) {}
Series::~Series() = default;

Result<TransferInfo> Series::Open(const Principal& who, SeriesRequest request) {
  Context& context = context_;
  if (context.draining) return context.Draining();
  const bool reads = !request.source.file.empty();
  Endpoint& file = reads ? request.source : request.destination;
  Endpoint& buffer = reads ? request.destination : request.source;
  if (file.file.empty() || !file.buffer.empty() || !buffer.file.empty() || buffer.buffer.empty() ||
      !context.IsSelf(file.node)) {
    return Status(Code::kInvalidArgument, reasons::kBadEndpoint,
                  "a series needs one file on node " + context.node() + " and one buffer");
  }
  if (!buffer.node.empty()) ONECOPY_RETURN_IF_ERROR(CheckName(buffer.node, "node"));
  if (request.deadline && request.deadline->count() <= 0) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument, "the deadline has already passed");
  }
  for (Endpoint* end : {&file, &buffer}) {
    if (end->node.empty()) end->node = context.node();
  }
  TransferInfo info;
  info.id = NewTransferId();
  info.role = reads ? TransferRole::kSource : TransferRole::kDestination;
  info.source = std::move(request.source);
  info.destination = std::move(request.destination);
  info.bytes = request.bytes.value_or(0);
  info.owner = who.ToString();
  info.trace = request.trace;
  info.create_time = std::chrono::system_clock::now();
  const TransferId id = info.id;
  ONECOPY_ASSIGN_OR_RETURN(Ledger::Charge charge,
                           transfers_.Take(OwnerOf(who), context.node(), who.administrator, 0));
  ONECOPY_ASSIGN_OR_RETURN(
      TransferRecord* const record,
      transfers_.Add(std::move(info), OwnerOf(who), context.node(), std::move(charge)));
  record->series = true;

  auto deciding = std::make_unique<Deciding>();
  deciding->session = who.session;
  deciding->policy = std::move(request.policy);
  deciding->checksum = request.checksum;
  deciding->pacing = request.pacing;
  deciding->reporter = std::make_shared<Reporter>(context_, peers_, transfers_, id);
  deciding->reporter->AddObserver(reads ? record->info.destination.node : record->info.source.node);
  if (request.deadline) {
    deciding->deadline = deciding->begun + *request.deadline;
    deciding->deadline_timer =
        context.loop.RunAfter(*request.deadline, [this, id] { OnDeadline(id, true); });
  }
  deciding_[id] = std::move(deciding);
  ended_[id];
  transfers_.BeginRun(*record, std::make_shared<SeriesRun>(*this, id));
  return record->info;
}

// Parts have the same deadline, and say better what they waited for: they come first.
void Series::OnDeadline(const TransferId& id, bool parts_first) {
  const auto late = deciding_.find(id);
  if (late == deciding_.end()) return;
  Deciding& deciding = *late->second;
  deciding.deadline_timer = 0;
  if (parts_first && !deciding.under_way.empty()) {
    deciding.deadline_timer =
        context_.loop.RunAfter(kPartsGrace, [this, id] { OnDeadline(id, false); });
    return;
  }
  Cancel(id, {Code::kDeadlineExceeded, reasons::kDeadline,
              "the transfer did not end within its deadline: it waited for its client after " +
                  FormatBytes(deciding.bytes),
              "allow more time with a later deadline"});
}

Series::Deciding* Series::DecidedFor(const Principal& who, const TransferId& id) {
  const auto found = deciding_.find(id);
  const TransferRecord* record = transfers_.Find(id);
  const bool theirs =
      found != deciding_.end() && record != nullptr && owners_.Owns(who, record->owner);
  return theirs ? found->second.get() : nullptr;
}

Result<TransferInfo> Series::End(const Principal& who, const SeriesEnd& end) {
  TransferRecord* const record = transfers_.Find(end.id);
  if (record == nullptr || !record->series || !owners_.Owns(who, record->owner)) {
    return NoSeries(context_.node(), end.id);
  }
  Deciding* deciding = DecidedFor(who, end.id);
  if (deciding == nullptr || deciding->ending) return record->info;
  record->heard = true;  // by this answer
  if (!end.failure.ok()) {
    const bool refused = !deciding->started && deciding->under_way.empty();
    // As any transfer that was refused, it leaves no record.
    if (refused) transfers_.Find(end.id)->forget = true;
    Cancel(end.id, end.failure);
    return transfers_.Find(end.id)->info;
  }
  if (!deciding->under_way.empty()) {
    return Status(Code::kFailedPrecondition, reasons::kBadArgument,
                  std::to_string(deciding->under_way.size()) + " parts of transfer " +
                      end.id.str() + " have not ended");
  }
  if (record->info.bytes != 0 && record->info.bytes != deciding->bytes) {
    return Status(Code::kInvalidArgument, reasons::kSizeMismatch,
                  "the parts have " + std::to_string(deciding->bytes) + " bytes, and transfer " +
                      end.id.str() + " was to have " + std::to_string(record->info.bytes));
  }
  deciding->ending = true;
  deciding->sum = end.checksum;
  ConcludeIfOver(end.id);
  return transfers_.Find(end.id)->info;
}

Status Series::Adopt(const Principal& who, TransferRequest& part, const TransferId& id) {
  TransferRecord* record = transfers_.Find(part.part_of);
  Deciding* deciding = DecidedFor(who, part.part_of);
  if (deciding == nullptr || deciding->ending) {
    const bool theirs = record != nullptr && record->series && owners_.Owns(who, record->owner);
    if (!theirs) return NoSeries(context_.node(), part.part_of);
    const Status& why = deciding == nullptr ? record->info.error : deciding->outcome;
    if (!why.ok()) return why;
    return {Code::kFailedPrecondition, reasons::kBadArgument,
            "transfer " + part.part_of.str() + " has ended"};
  }
  if (part.policy != Policy() || part.checksum || part.deadline || part.pacing != Pacing() ||
      !part.trace.empty()) {
    return {
        Code::kInvalidArgument, reasons::kBadArgument,
        "a part has the policy, checksum, deadline, pacing and trace of its series, and cannot set "
        "its own"};
  }
  part.policy = deciding->policy;
  part.checksum = deciding->checksum;
  part.pacing = deciding->pacing;
  part.trace = record->info.trace;
  if (deciding->deadline) {
    part.deadline = std::max(std::chrono::milliseconds(1),
                             std::chrono::duration_cast<std::chrono::milliseconds>(
                                 *deciding->deadline - os::Clock::now()));
  }
  deciding->under_way.insert(id);
  ++record->info.parts;
  return OkStatus();
}

void Series::Refused(const TransferId& series, const TransferId& part) {
  const auto found = deciding_.find(series);
  if (found == deciding_.end() || found->second->under_way.erase(part) == 0) return;
  ConcludeIfOver(series);
}

void Series::Started(const TransferRecord& part) {
  const auto found = deciding_.find(part.info.part_of);
  if (found == deciding_.end()) return;
  found->second->started = true;
  if (!found->second->ending) return;
  const TransferId series = found->first;
  CancelParts(series);
  ConcludeIfOver(series);
}

std::optional<TransferInfo> Series::Find(const TransferId& id) const {
  const TransferRecord* const record = transfers_.Find(id);
  const bool bundle = record != nullptr && record->bundle && record->run != nullptr;
  if (!deciding_.contains(id) && !bundle) return std::nullopt;
  TransferInfo info = record->info;
  info.receipt = {};  // useless to the node that is told
  info.plan.reset();
  return info;
}

Status Series::Join(const std::string& caller, const TransferInfo& said, const Owner& owner,
                    TransferRole role) {
  if (context_.IsSelf(caller)) {
    return deciding_.contains(said.id) ? OkStatus() : NoSeries(caller, said.id);
  }
  if (said.id.empty() || said.id.str().size() > kMaxIdBytes) {
    return {Code::kInvalidArgument, reasons::kBadArgument, "the series has no id"};
  }
  if (const TransferRecord* known = transfers_.Find(said.id)) {
    // One of several buffers is known where it was ordered, and decided by the caller.
    const bool theirs =
        known->initiator == caller || remote_transfers_.DecidedBy(said.id) == caller;
    if (known->series && theirs && known->owner == owner) {
      if (IsFinal(known->info.state)) {
        return {Code::kFailedPrecondition, reasons::kBadArgument,
                "transfer " + said.id.str() + " has ended"};
      }
      KeepPartsOf(said.id);
      return OkStatus();
    }
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "transfer " + Printable(said.id.str()) + " is not a series of node " + caller};
  }
  TransferInfo info;
  info.id = said.id;
  info.role = role;
  info.source = said.source;
  info.destination = said.destination;
  info.bytes = said.bytes;
  info.bytes_done = said.bytes_done;
  info.parts = said.parts;
  info.source_buffers = said.source_buffers;
  info.destination_buffers = said.destination_buffers;
  info.trace = said.trace;
  info.owner = owner.ToString();
  info.create_time = std::chrono::system_clock::now();
  ONECOPY_ASSIGN_OR_RETURN(Ledger::Charge charge, transfers_.Take(owner, caller, false, 0));
  ONECOPY_ASSIGN_OR_RETURN(TransferRecord* const record,
                           transfers_.Add(std::move(info), owner, caller, std::move(charge)));
  record->series = true;
  ended_[said.id];
  remote_transfers_.Await(*record, caller, std::nullopt);
  remote_transfers_.AskWhenSilent(said.id);
  return OkStatus();
}

void Series::Cancel(TransferId id, const Status& why) {
  const auto found = deciding_.find(id);
  if (found == deciding_.end()) return;
  Deciding& deciding = *found->second;
  const bool cancelled = deciding.ending && !deciding.outcome.ok();
  // What is cancelled already waits for its parts no more once this node stops.
  if (cancelled && !context_.stopping) return;
  if (!cancelled) deciding.outcome = why;
  deciding.ending = true;
  CancelParts(id);
  ConcludeIfOver(id);
}

void Series::CancelParts(const TransferId& id) {
  // The last part's end may be the end of all.
  const Status why = deciding_.at(id)->outcome;
  const std::set<TransferId> under_way = deciding_.at(id)->under_way;
  for (const TransferId& part : under_way) {
    const TransferRecord* record = transfers_.Find(part);
    if (record == nullptr || IsFinal(record->info.state)) continue;  // being ordered: see Started
    const std::string decider = remote_transfers_.DecidedBy(part);
    if (decider.empty()) {
      if (record->run != nullptr) record->run->Cancel(why);
      continue;
    }
    // This node does not stay for an answer that may come in minutes, or never.
    const auto deciding = deciding_.find(id);
    if (context_.stopping && deciding != deciding_.end()) deciding->second->under_way.erase(part);
    Result<PeerApi*> peer = peers_.Find(decider);
    if (!peer.ok()) continue;  // UNCONFIRMED ends it here
    (*peer)->Cancel(context_.node(), record->owner.uid, part, [](const auto&) {});
  }
}

void Series::Tick(const TransferId& id) {
  const auto found = deciding_.find(id);
  TransferRecord* record = transfers_.Find(id);
  if (found == deciding_.end() || record == nullptr) return;
  Deciding& deciding = *found->second;
  uint64_t bytes = deciding.bytes;
  const TransferRecord* running = nullptr;
  std::vector<TransferId> unconfirmed;
  for (const TransferId& part : deciding.under_way) {
    const TransferRecord* one = transfers_.Find(part);
    if (one == nullptr) continue;
    bytes += one->info.bytes_done;
    if (one->info.state == TransferState::kRunning) running = one;
    if (one->info.state == TransferState::kUnconfirmed) unconfirmed.push_back(part);
  }
  TransferInfo& info = record->info;
  // Short parts may all have run between two looks.
  const bool some = running != nullptr || bytes > 0;
  const bool begins = some && info.state == TransferState::kPending;
  if (begins) info.state = TransferState::kRunning;
  if (running != nullptr) {
    TakePlan(running->info, info);
    if (deciding.receipt.lanes.empty()) info.receipt.lanes = running->info.receipt.lanes;
  }
  if (begins || bytes != info.bytes_done) {
    info.bytes_done = bytes;
    transfers_.Changed(*record);
    deciding.reporter->Report(!begins);
  }
  // Their end is not known here; the series does not wait for it once it has failed.
  if (!deciding.ending || unconfirmed.empty()) return;
  for (const TransferId& part : unconfirmed) deciding.under_way.erase(part);
  ConcludeIfOver(id);
}

void Series::AddPart(const TransferRecord& part) {
  const auto found = deciding_.find(part.info.part_of);
  if (found == deciding_.end() || found->second->under_way.erase(part.info.id) == 0) return;
  Deciding& deciding = *found->second;
  TransferInfo& info = transfers_.Find(found->first)->info;
  TakePlan(part.info, info);
  if (part.info.state == TransferState::kSucceeded) {
    deciding.bytes += part.info.bytes;
    MergeReceipt(part.info.receipt, deciding.receipt);
    const std::optional<ChecksumResult>& sum = part.info.receipt.checksum;
    deciding.verified = deciding.verified && sum && sum->verified;
  } else {
    Receipt tried;
    tried.attempts = part.info.receipt.attempts;
    MergeReceipt(tried, deciding.receipt);
  }
  info.receipt = deciding.receipt;
  ConcludeIfOver(found->first);
}

void Series::ConcludeIfOver(TransferId id) {
  const auto found = deciding_.find(id);
  if (found == deciding_.end() || !found->second->ending || !found->second->under_way.empty()) {
    return;
  }
  const std::unique_ptr<Deciding> deciding = std::move(found->second);
  deciding_.erase(found);
  context_.loop.CancelTimer(deciding->deadline_timer);
  TransferRecord& record = *transfers_.Find(id);
  TransferInfo& info = record.info;
  info.bytes_done = deciding->bytes;
  if (deciding->outcome.ok()) info.bytes = deciding->bytes;
  info.receipt = std::move(deciding->receipt);
  info.receipt.seconds = std::chrono::duration<double>(os::Clock::now() - deciding->begun).count();
  if (deciding->bytes > 0) {
    const ExecutedStep own{ClientStep(info), deciding->bytes};
    std::vector<ExecutedStep>& steps = info.receipt.steps;
    steps.insert(own.step.from == "file" ? steps.begin() : steps.end(), own);
  }
  if (deciding->checksum && deciding->outcome.ok() && !deciding->sum.empty()) {
    info.receipt.checksum =
        ChecksumResult{digest::kTreeAlgorithm, deciding->sum, deciding->verified};
  }
  transfers_.Conclude(record, deciding->outcome);
  deciding->reporter->Report(false);
  transfers_.EndRun(record);
}

void Series::OnFinal(const TransferRecord& record) {
  if (!record.info.part_of.empty()) {
    const TransferId series = record.info.part_of;
    KeepEnded(series, record);
    return AddPart(record);
  }
  if (!record.series) return;
  ForgetEnded(record.info.id);
}

void Series::KeepEnded(const TransferId& series, const TransferRecord& part) {
  const auto kept = ended_.find(series);
  if (kept == ended_.end() || !transfers_.Remember(part.info.id)) {
    return transfers_.Forget(part.info.id);
  }
  kept->second.push_back(part.info.id);
  if (kept->second.size() <= kMaxEndedParts) return;
  transfers_.Forget(kept->second.front());
  kept->second.pop_front();
}

void Series::ForgetEnded(const TransferId& series) {
  const auto kept = ended_.extract(series);
  if (kept.empty()) return;
  for (const TransferId& part : kept.mapped()) transfers_.Forget(part);
}

void Series::EndSession(const SessionId& session) {
  std::vector<TransferId> theirs;
  for (const auto& [id, deciding] : deciding_) {
    if (deciding->session == session) theirs.push_back(id);
  }
  for (const TransferId& id : theirs) {
    const TransferInfo& info = transfers_.Find(id)->info;
    const std::string& file = info.source.file.empty() ? info.destination.file : info.source.file;
    Cancel(id, {Code::kAborted, reasons::kOwnerDied,
                "the client that copied " + Printable(file) + " has gone"});
  }
}

}  // namespace onecopy::engine
