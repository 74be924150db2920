#include "daemon/engine/transfers/destination_run.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/context.h"
#include "daemon/log/log.h"
#include "daemon/plan/ladder.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/core/base/duration.h"

namespace onecopy::engine {
namespace {

// A device that has run out of what it gives, or that does not reach the other, says nothing about
// sockets; where the sockets fail there is nothing left to try.
bool AnotherPathMayDo(const Status& failure, const plan::Path& path) {
  if (failure.code() == Code::kFailedPrecondition) return true;
  if (failure.reason() == reasons::kMemlock || failure.reason() == reasons::kKeysExhausted) {
    return true;
  }
  const bool unreachable =
      failure.reason() == reasons::kLinkDown || failure.reason() == reasons::kNicUnreachable;
  return unreachable && plan::CarrierOf(path.path) == plan::Carrier::kRdma;
}

}  // namespace

DestinationRun::DestinationRun(const Needs& needs, Params params)
    : needs_(needs),
      params_(std::move(params)),
      tries_(needs.context.options.stall_timeout, needs.context.options.resume_for),
      info_(needs.transfers, needs.rate_watch,
            {params_.request, params_.destination, params_.plan, tries_}),
      accepted_(os::Clock::now()),
      progressed_(accepted_) {}

TransferRecord& DestinationRun::record() { return *needs_.transfers.Find(params_.request.id); }

void DestinationRun::Start(std::shared_ptr<Reporter> reporter, Replan replan) {
  info_.SetReporter(std::move(reporter));
  replan_ = std::move(replan);
  if (params_.request.asked.deadline) {
    deadline_timer_ =
        needs_.context.loop.RunAfter(*params_.request.asked.deadline, [self = shared_from_this()] {
          self->deadline_timer_ = 0;
          self->Cancel({Code::kDeadlineExceeded, reasons::kDeadline,
                        "the transfer did not end within its deadline: " + self->WhatItWaitsFor(),
                        "allow more time with a later deadline"});
        });
  }
  if (!params_.plan.tried_again.empty()) {
    needs_.path_rates.TriedAgain(params_.request.reservation.source.node, info_.WayTaken());
  }
  Begin();
}

void DestinationRun::Resume(std::shared_ptr<Reporter> reporter, Replan replan, Learn learn,
                            uint64_t arrived, const std::string& path) {
  info_.SetReporter(std::move(reporter));
  replan_ = std::move(replan);
  learn_ = std::move(learn);
  recorded_arrived_ = arrived;
  NoteArrived(arrived);
  tries_.Lose({Code::kAborted, reasons::kPeerRestarted,
               "the daemon of node " + needs_.context.node() + " has restarted",
               "start the transfer again"});
  between_ = true;
  info_.Resume(path);
  BeginWhenConnected(tries_.lost());
}

void DestinationRun::PlanAndBegin() {
  learn_([self = shared_from_this()](Result<plan::Path> path) {
    if (self->ended_) return;
    if (path.ok()) {
      self->params_.plan = *std::move(path);
      self->between_ = false;
      return self->Begin();
    }
    const bool down = path.status().code() == Code::kUnavailable;
    if (!down || !self->MayWait(self->SomeArrived())) return self->End(path.status());
    self->tries_.LoseNode();
    self->BeginWhenConnected(path.status());
  });
}

std::string DestinationRun::ArrivedWrong() const {
  return FormatBytes(mends_.bytes()) + " of " + FormatBytes(params_.destination.payload()) +
         " had arrived unlike the source and were being sent again";
}

std::string DestinationRun::WhatItWaitsFor() const {
  if (between_) {
    return "it waited for node " + params_.request.reservation.source.node +
           " to answer again, with " + FormatBytes(tries_.arrived()) + " of " +
           FormatBytes(params_.destination.payload()) + " arrived: " + tries_.lost().message();
  }
  if (proof_ != nullptr && proof_->committing())
    return "the bytes were in the file, but not all of them on the disk yet";
  if (move_ == nullptr) return "the bytes had arrived, and their checksums were being computed";
  if (mends_.next() != nullptr) return ArrivedWrong();
  const std::string waits_for = move_->waits_for();
  if (!waits_for.empty()) return "it waited for " + waits_for;
  const auto silent =
      std::chrono::duration_cast<std::chrono::milliseconds>(os::Clock::now() - progressed_);
  return FormatBytes(move_->bytes_done()) + " of " + FormatBytes(params_.destination.payload()) +
         " had arrived by " + params_.plan.path +
         (silent > std::chrono::seconds(1)
              ? ", and none more for " + std::to_string(silent.count()) + " ms"
              : "");
}

Flow DestinationRun::flow() {
  Flow flow = needs_.transfers.FlowOf(record());
  flow.own_priority = params_.request.asked.pacing.priority;
  return flow;
}

void DestinationRun::Begin() {
  if (pace_ == nullptr) {
    pace_ =
        needs_.transfers.PaceOf(record(), params_.request.asked.pacing.rate_limit_bytes_per_second);
  }
  info_.Begin(pace_);
  progressed_ = os::Clock::now();
  const plan::Path& path = params_.plan;
  if (IsLocal()) {
    move_ = needs_.moves.Inside(path, {record().info.owner, payer(), flow(), pace_},
                                *params_.source_area, params_.destination);
  } else {
    RemoteMove::Params params{
        path,
        params_.request.reservation.source.node,
        params_.request.reservation.ticket,
        params_.request.asked.checksum && mends_.last(),
        params_.client_buffer,
        payer(),
        flow(),
        {params_.request.reservation.memory, params_.request.reservation.device},
        {},
        record().info,
        params_.request.ranges,
        params_.request.reservation.memory_id,
        pace_,
        tries_.arrived()};
    params.unproven = params_.request.asked.checksum && !path.link.empty();
    if (const ByteRange* const part = mends_.next()) {
      params.arrived = part->offset;
      params.until = part->offset + part->bytes;
    }
    if (params_.request.asked.deadline) {
      const auto passed =
          std::chrono::duration_cast<std::chrono::milliseconds>(os::Clock::now() - accepted_);
      params.deadline =
          std::max(*params_.request.asked.deadline - passed, std::chrono::milliseconds(1));
    }
    move_ = needs_.moves.FromPeer(std::move(params), params_.destination);
  }
  if (params_.request.asked.checksum && mends_.last()) {
    move_->OnLanded([self = shared_from_this()] { self->OnLanded(); });
  }
  move_->Start(
      [self = shared_from_this()] { self->OnRunning(); },
      [self = shared_from_this()](MoveOutcome outcome) { self->OnMoved(std::move(outcome)); });
}

void DestinationRun::OnRunning() {
  progressed_ = os::Clock::now();
  info_.NoteRunning(*move_, ToSeconds(progressed_ - accepted_));
}

void DestinationRun::Cancel(const Status& why) {
  if (ended_ || !cancelled_.ok()) return;
  cancelled_ = why;
  *stop_ = true;
  StopSums();
  if (move_ != nullptr) return move_->Stop(why);
  if (between_) End(why);
}

void DestinationRun::Leave(const Status& why) {
  const Buffer* const buffer = needs_.buffers.FindById(params_.buffer);
  const bool resumable = params_.recorded && cancelled_.ok() && needs_.context.serving &&
                         buffer != nullptr && buffer->survives();
  if (!resumable) return Cancel(why);
  if (ended_ || std::exchange(left_, true)) return;
  info_.WaitFor("the daemon of node " + needs_.context.node() + " to start again");
  *stop_ = true;
  StopSums();
  if (move_ != nullptr) return move_->Stop(why);
  if (between_) End(why);
}

void DestinationRun::LoseReading(const Connection& connection, const Status& why) {
  if (move_ != nullptr) move_->LoseConnection(connection, why);
}

void DestinationRun::Tick() {
  if (move_ == nullptr || left_) return;
  const bool some = move_->bytes_done() > 0;
  RecordArrived(move_->arrived());
  const os::Clock::time_point now = os::Clock::now();
  if (const uint64_t life = move_->life(); life != life_seen_) {
    life_seen_ = life;
    progressed_ = now;
  }
  info_.NoteProgress(*move_);
  const auto waited = now - progressed_;
  const std::string& source = params_.request.reservation.source.node;
  if (!IsLocal() && waited > std::chrono::seconds(1) && !needs_.peers.IsConnected(source)) {
    const Status down(Code::kUnavailable, reasons::kPeerDown,
                      "node " + source + ", which sends the bytes, no longer answers",
                      "try again when it answers: onecopy node ls");
    // It lets go of everything, and goes on when the peer is back.
    return MayWait(some || SomeArrived()) ? move_->Stop(down) : Cancel(down);
  }
  if (waited > needs_.context.options.stall_timeout) {
    const std::string& waits_for = record().info.waits_for;
    Cancel({Code::kDeadlineExceeded, reasons::kStalled,
            "no byte has moved for " +
                std::to_string(std::chrono::duration_cast<std::chrono::seconds>(waited).count()) +
                " s" + (waits_for.empty() ? "" : "; it waited for " + waits_for)});
  }
}

void DestinationRun::OnMoved(MoveOutcome outcome) {
  move_.reset();
  record().info.waits_for.clear();
  // A source that has restarted meanwhile does not know the ticket: what was seen first says more.
  const bool unknown = !outcome.began && outcome.status.code() == Code::kPermissionDenied;
  // The transfer was not cancelled: a call was dropped with the connection to the source's node.
  if (outcome.status.code() == Code::kCancelled && outcome.status.reason() == reasons::kPeerDown) {
    outcome.status = {Code::kUnavailable, reasons::kPeerDown, outcome.status.message(),
                      outcome.status.remedy()};
  }
  // A source that stops and returns has said so before its server refuses calls.
  const bool stops = !outcome.began && outcome.status.reason() == reasons::kDraining &&
                     tries_.lost().reason() == reasons::kPeerDown;
  if ((unknown && !tries_.lost().ok()) || stops) outcome.status = tries_.lost();
  // Nothing has arrived where memory was not there, whatever those say who moved it.
  if (outcome.status.ok()) outcome.status = params_.destination.span.region->CheckIntact();
  if (outcome.status.ok() && params_.source_area) {
    outcome.status = params_.source_area->span.region->CheckIntact();
  }
  if (outcome.status.ok()) return OnArrived(std::move(outcome));
  DropSum([self = shared_from_this(), unknown, outcome = std::move(outcome)]() mutable {
    self->OnFailed(std::move(outcome), unknown);
  });
}

void DestinationRun::OnLanded() {
  sum_ = std::make_shared<DestinationSum>(needs_.checksums, payer(), params_.destination);
  sum_->Start();
}

void DestinationRun::DropSum(Task then) {
  if (sum_ == nullptr) return then();
  sum_->Stop();
  std::exchange(sum_, nullptr)
      ->WhenKnown([self = shared_from_this(),
                   then = std::move(then)](const Result<digest::TreeSum>&) mutable {
        self->progressed_ = os::Clock::now();  // the wait is not a stall
        then();
      });
}

void DestinationRun::StopSums() {
  if (sum_ != nullptr) sum_->Stop();
  if (proof_ != nullptr) proof_->Stop();
}

void DestinationRun::OnFailed(MoveOutcome outcome, bool unknown) {
  const plan::Path& path = params_.plan;
  const Status failure = outcome.status;
  info_.NoteAttempt(failure.reason(), outcome.bytes);
  NoteArrived(outcome.arrived);
  // A cancel may have come while DropSum waited.
  if (!cancelled_.ok() && !left_) {
    info_.NoteFailed(std::move(outcome));
    return End(cancelled_);
  }
  if (left_) return End(cancelled_.ok() ? failure : cancelled_);
  if (!unknown && MayTryAgain(outcome)) return TryAgain(outcome);
  // What only showed itself impossible when it was tried is like a refusal: another path may do.
  if (!outcome.began && cancelled_.ok() && AnotherPathMayDo(failure, path) &&
      std::none_of(excluded_.begin(), excluded_.end(),
                   [&](const plan::Exclusion& one) { return one.Covers(path); })) {
    excluded_.push_back(plan::Exclusion::Of(path, failure));
    Result<plan::Path> other =
        replan_(params_.request.reservation, params_.destination, params_.request.ranges,
                params_.request.asked.policy, excluded_);
    // Of what may be otherwise in a moment, the caller hears as such: it can try again.
    const bool passing = failure.code() != Code::kFailedPrecondition;
    if (!other.ok()) return End(passing ? failure : other.status());
    log::Info("path refused when it was tried", {{"transfer", params_.request.id.str()},
                                                 {"path", path.path},
                                                 {"why", failure.ToString()},
                                                 {"instead", other->path},
                                                 {"trace", params_.request.asked.trace}});
    params_.plan = std::move(*other);
    tries_.BeginAgain();
    if (params_.plan.link.empty()) mends_.SendAll();
    return Begin();
  }
  info_.NoteFailed(std::move(outcome));
  End(failure);
}

bool DestinationRun::MayTryAgain(const MoveOutcome& outcome) const {
  const plan::Path& path = params_.plan;
  const Status& failure = outcome.status;
  const bool lost =
      failure.code() == Code::kUnavailable &&
      (failure.reason() == reasons::kLinkDown || failure.reason() == reasons::kPeerDown);
  // One that was not made at all says that another link may do better, where there is one.
  const bool others = !outcome.connected && plan::CarrierOf(path.path) == plan::Carrier::kRdma;
  if (!lost || others || path.link.empty() || !cancelled_.ok()) return false;
  return MayWait(SomeArrived()) || tries_.MayTryAgain(progressed_);
}

bool DestinationRun::SomeArrived() const {
  const TransferId& part_of = needs_.transfers.Find(params_.request.id)->info.part_of;
  const TransferRecord* whole = part_of.empty() ? nullptr : needs_.transfers.Find(part_of);
  return tries_.arrived() > 0 || mends_.next() != nullptr ||
         (whole != nullptr && whole->info.bytes_done > 0);
}

bool DestinationRun::MayWait(bool arrived) const {
  const bool by_link = IsUnplanned() || !params_.plan.link.empty();
  // A resumed transfer waits at least a little, because this process has not met its peers yet.
  return (arrived || IsUnplanned()) && by_link && cancelled_.ok() &&
         tries_.MayWait(arrived, progressed_);
}

void DestinationRun::NoteArrived(uint64_t arrived) {
  if (!tries_.Arrived(arrived, params_.destination.payload())) return;
  RecordArrived(tries_.arrived());
  record().info.bytes_done = std::max(record().info.bytes_done, tries_.arrived());
}

void DestinationRun::RecordArrived(uint64_t arrived) {
  if (!params_.recorded || arrived < recorded_arrived_ + Tries::kGrain) return;
  recorded_arrived_ = arrived;
  needs_.records.PutArrived(params_.request.id, arrived);
}

void DestinationRun::TryAgain(const MoveOutcome& outcome) {
  const Status& failure = outcome.status;
  tries_.Lose(failure);
  log::Info("connection lost, the transfer goes on", {{"transfer", params_.request.id.str()},
                                                      {"source", record().info.source.ToString()},
                                                      {"path", params_.plan.path},
                                                      {"from", std::to_string(tries_.arrived())},
                                                      {"why", failure.ToString()},
                                                      {"trace", params_.request.asked.trace}});
  between_ = true;
  info_.NoteLost(outcome);
  BeginWhenConnected(failure);
}

void DestinationRun::BeginWhenConnected(const Status& failure) {
  needs_.context.loop.RunAfter(tries_.Pause(), [self = shared_from_this(), failure] {
    if (self->ended_) return;
    self->needs_.peers.WhenConnected(
        self->params_.request.reservation.source.node,
        [self, failure](const Result<PeerApi*>& peer) {
          if (self->ended_) return;
          if (peer.ok()) {
            if (self->IsUnplanned()) return self->PlanAndBegin();
            self->between_ = false;
            return self->Begin();
          }
          // A peer without a configured address must call first.
          const bool unmet = self->IsUnplanned() && peer.status().code() == Code::kNotFound;
          const bool down = unmet || peer.status().reason() == reasons::kPeerDown;
          if (!down || !self->MayWait(self->SomeArrived())) return self->End(failure);
          self->tries_.LoseNode();
          self->BeginWhenConnected(failure);
        });
  });
}

void DestinationRun::OnArrived(MoveOutcome outcome) {
  const bool more = !mends_.last();
  if (mends_.next() != nullptr) mends_.Sent();
  if (!more || left_ || !cancelled_.ok()) return Verify(std::move(outcome));
  info_.NoteMoved(std::move(outcome));
  info_.KeepMoved();
  Begin();
}

void DestinationRun::Verify(MoveOutcome outcome) {
  digest::TreeSum source_sum = std::move(outcome.source_checksum);
  info_.NoteMoved(std::move(outcome));
  if (!cancelled_.ok()) {
    return DropSum([self = shared_from_this()] { self->End(self->cancelled_); });
  }
  Proof::Params params{.destination = params_.destination,
                       .source = params_.source_area,
                       .source_node = params_.request.reservation.source.node,
                       .source_sum = std::move(source_sum),
                       .here = std::exchange(sum_, nullptr),
                       .checksum = params_.request.asked.checksum,
                       .payer = payer(),
                       .stop = stop_};
  proof_ =
      std::make_shared<Proof>(needs_.context, needs_.checksums, std::move(params),
                              [self = shared_from_this()](const Status& proven, const auto& sums) {
                                self->OnProven(proven, sums);
                              });
  proof_->Start();
}

void DestinationRun::OnProven(const Status& proven, const std::optional<ChecksumResult>& sums) {
  record().info.receipt.checksum = sums;
  if (proven.reason() == reasons::kChecksumMismatch) info_.NoteMismatch();
  // Inside a host it is not a wire that changes bytes, but a program that writes meanwhile.
  const bool by_wire = !params_.plan.link.empty();
  if (proven.ok() || left_ || !cancelled_.ok() || !by_wire || !mends_.Add(proof_->wrong())) {
    return End(proven.ok() || cancelled_.ok() ? proven : cancelled_);
  }
  log::Warning("bytes arrived wrong and are sent again",
               {{"transfer", params_.request.id.str()},
                {"source", record().info.source.ToString()},
                {"path", params_.plan.path},
                {"bytes", std::to_string(mends_.bytes())},
                {"why", proven.ToString()},
                {"trace", params_.request.asked.trace}});
  proof_.reset();
  info_.NoteSentAgain(mends_.bytes());
  tries_.ArrivedAll();
  Begin();
}

void DestinationRun::TellArrival() {
  const Buffer* const buffer = needs_.buffers.FindById(params_.buffer);
  TransferInfo& info = record().info;
  Arrival arrival;
  arrival.transfer = info.part_of.empty() ? info.id : info.part_of;
  arrival.from = info.owner;
  arrival.range = {params_.destination.span.offset, params_.destination.span.bytes};
  arrival.bytes = params_.destination.payload();
  arrival.message = params_.request.asked.message;
  const bool message = !arrival.message.empty();
  const bool told = needs_.arrivals.Deliver(*buffer, std::move(arrival), std::move(params_.room));
  if (message && !told) {
    info.receipt.evidence["message"] = "message not delivered: no active watcher";
  }
}

void DestinationRun::End(const Status& status) {
  if (std::exchange(ended_, true)) return;
  params_.destination.span.region.reset();
  if (params_.source_area) params_.source_area->span.region.reset();
  TransferRecord& record = this->record();
  if (left_ && !status.ok() && cancelled_.ok()) {
    log::Info("a transfer is left to the daemon's next start",
              {{"transfer", params_.request.id.str()},
               {"source", record.info.source.ToString()},
               {"arrived", std::to_string(recorded_arrived_)},
               {"trace", params_.request.asked.trace}});
    LetGo();
    return needs_.transfers.EndRun(record);
  }
  if (status.ok() && params_.tell) TellArrival();
  LetGo();
  const bool wrong = !status.ok() && cancelled_.ok() && mends_.next() != nullptr;
  needs_.transfers.Conclude(record, wrong ? status.WithContext(ArrivedWrong()) : status);
  // After the order's record: the next process resumes a transfer that has only this one. If this
  // daemon's start failed, it can still do so.
  if (params_.recorded && needs_.context.serving) needs_.records.EraseArriving(params_.request.id);
  info_.Report();
  needs_.transfers.EndRun(record);
}

void DestinationRun::LetGo() {
  needs_.context.loop.CancelTimer(deadline_timer_);
  params_.room = {};
  needs_.buffers.Release(params_.buffer, params_.request.id);
  if (params_.source_buffer) needs_.buffers.Release(*params_.source_buffer, params_.request.id);
}

}  // namespace onecopy::engine
