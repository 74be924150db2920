#include "daemon/engine/transfers/source_run.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/move.h"
#include "daemon/engine/base/routes.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "transport/core/contracts/store.h"

namespace onecopy::engine {
namespace {

// Of a reader that is not heard, while others wait for the slots that it does not read.
constexpr std::chrono::seconds kUnheardPatience{2};
constexpr std::chrono::milliseconds kTellPause{1000};

Status NotInPlace(const std::string& file) {
  return {Code::kInvalidArgument, reasons::kBadArgument,
          file + " cannot be read in place by another node: it is read through slots"};
}

}  // namespace

Status ReturnsLater(const std::string& node) {
  return {Code::kUnavailable, reasons::kPeerDown,
          "the daemon of node " + node +
              " stops; it has kept the source, which can be read again when the daemon is back",
          "start onecopyd on node " + node};
}

SourceRun::SourceRun(const Needs& needs, TransferId id, std::string destination,
                     const Ticket& ticket, RegionRef region, Connections::Serving serving)
    : needs_(needs),
      id_(std::move(id)),
      destination_(std::move(destination)),
      ticket_(ticket),
      payer_(PayerAt(needs.context.node(), ticket.initiator, ticket.owner)),
      flow_(needs.context.flows.Of(ticket.owner, ticket.initiator)),
      region_(std::move(region)),
      slots_(needs.slots.For(*region_)),
      link_(std::move(serving.link)),
      connection_(std::move(serving.connection)),
      lent_(connection_ == nullptr) {}

PrepareReply SourceRun::Prepare(const PrepareRequest& request) {
  begun_ = needs_.transfers.begun();
  shared_ = needs_.transfers.running() > 1;
  ticket_text_ = request.ticket;
  if (lent_) return {.lent = ticket_.place.range};
  channel_id_ = request.channel;
  connection_number_ = request.connection;
  // A reader has nothing to say before it is told of a chunk.
  channel_ = std::make_unique<pipeline::Channel>(connection_, request.channel, nullptr, 0);
  if (!request.staged) {
    OpenInPlace(request);
    return {};
  }
  Stage(request);
  return {.begins_at_bytes = request.arrived_bytes};
}

void SourceRun::Stage(const PrepareRequest& request) {
  const MemoryPlace& place = ticket_.place;
  StagedSource::Params params;
  params.area = {{region_, place.range.offset, place.range.bytes}, place.layout};
  params.owner = ticket_.owner.ToString() + " to " + destination_;
  params.payer = payer_;
  params.flow = flow_;
  params.link = link_;
  params.connection = connection_;
  params.channel = channel_.get();
  params.chunk_bytes = request.chunk_bytes;
  params.skip = request.arrived_bytes;
  params.until = request.until_bytes;
  stage_ = std::make_shared<StagedSource>(needs_.context, needs_.registrations, slots_,
                                          std::move(params));
  StagedSource::Events events;
  events.ready = [self = shared_from_this()](uint64_t chunk_bytes, const std::vector<Step>& steps) {
    self->TellReady({.key = {}, .slot_bytes = chunk_bytes, .steps = steps});
  };
  events.failed = [self = shared_from_this()](const Status& why) { self->Cancel(why); };
  stage_->Start(std::move(events));
}

// Links read memory where it lies, and so would give some to bytes that have none; what copies them
// into slots does not.
void SourceRun::OpenInPlace(const PrepareRequest& request) {
  const ByteRange& range = ticket_.place.range;
  const Span span{region_, range.offset, range.bytes};
  if (region_->file() != nullptr) return Cancel(NotInPlace(region_->file()->name()));
  if (const Status usable = region_->CheckUsable(); !usable.ok()) return Cancel(usable);
  if (region_->backing() == nullptr || region_->backing()->IsFull()) {
    return Register(span, request.nics);
  }
  needs_.context.workers.Run<bool>(
      {WorkerOf(region_->place()), payer_},
      [span]() -> Result<bool> {
        return span.region->backing()->HasHoles(span.offset, span.bytes);
      },
      [self = shared_from_this(), span, nics = request.nics](const Result<bool>& holes) {
        if (self->closing_) return;
        if (!holes.ok()) return self->Cancel(holes.status());
        if (!*holes) return self->Register(span, nics);
        self->Cancel({Code::kFailedPrecondition, reasons::kHasHoles,
                      "part of the source was never written and has no memory yet",
                      "write it first, or use a path that goes through slots"});
      });
}

void SourceRun::Register(const Span& span, const std::vector<std::string>& nics) {
  // The buffer is being removed, and so this transfer ends.
  const Buffer* buffer = needs_.buffers.FindById(ticket_.buffer);
  const bool client = buffer != nullptr && buffer->registered;
  needs_.registrations.Ensure(link_, region_, client ? buffer->name : std::string(), nics, payer_,
                              [self = shared_from_this(), span](const Status& registered) {
                                if (!registered.ok()) return self->Cancel(registered);
                                if (!self->closing_) self->Export(span);
                              });
}

void SourceRun::Export(const Span& span) {
  range_ = std::make_shared<ExportedRange>(needs_.context, connection_);
  range_->Open(span, [self = shared_from_this()](Result<RemoteKey> key) {
    if (!key.ok()) return self->Cancel(key.status());
    self->TellReady({.key = std::move(*key), .slot_bytes = 0, .steps = {}});
  });
}

void SourceRun::TellReady(pipeline::ReadyMessage ready) {
  // What cannot be sent is noticed by the reader, too.
  (void)channel_->Send(std::move(ready));
}

void SourceRun::Cancel(const Status& why) {
  *stop_ = true;  // what it may be summing up
  if (failure_.ok()) {
    failure_ = why;
    // So that a destination that waits for the next chunk stops waiting; it then asks, by Finish,
    // what happened.
    if (channel_ != nullptr) (void)channel_->Send(pipeline::FailedMessage{why});
  }
  Close(why);
}

void SourceRun::Leave(const Status& why) {
  const Buffer* const buffer = needs_.buffers.FindById(ticket_.buffer);
  const bool returns = !lent_ && ticket_.record != 0 && buffer != nullptr && buffer->survives();
  Cancel(returns ? ReturnsLater(needs_.context.node()) : why);
}

void SourceRun::Tick() {
  if (closing_) return;
  TellWaiting();
  LimitWaiting();
  TransferRecord* record = needs_.transfers.Find(id_);
  if (record == nullptr || stage_ == nullptr || stage_->bytes_done() <= record->info.bytes_done)
    return;
  record->info.bytes_done = stage_->bytes_done();
  needs_.transfers.Changed(*record);
}

void SourceRun::TellWaiting() {
  using For = pipeline::WaitingMessage::For;
  const auto& stall_timeout = needs_.context.options.stall_timeout;
  const os::Clock::time_point now = os::Clock::now();
  if (channel_ == nullptr || (range_ != nullptr && range_->is_open())) return;
  if (now - told_ < std::min(kTellPause, stall_timeout / 4)) return;
  const auto waits =
      stage_ == nullptr ? pipeline::WaitingMessage{For::kMemory, 0} : stage_->Waits();
  if (!waits) return;
  if (waits->what == For::kMemory) {
    if (now - prepared_ > kMemoryPatience * stall_timeout) return;
  } else {
    const uint64_t given = slots_->given(Purpose::kSend);
    if (given == given_) return;  // no share gets any
    given_ = given;
  }
  told_ = now;
  (void)channel_->Send(*waits);
}

void SourceRun::LimitWaiting() {
  const auto since = stage_ == nullptr ? std::nullopt : stage_->OwesSlotsSince();
  if (!since) return;
  const bool heard = needs_.peers.IsConnected(destination_);
  const auto waited = os::Clock::now() - *since;
  if (waited < (heard ? needs_.context.options.stall_timeout
                      : std::chrono::milliseconds(kUnheardPatience))) {
    return;
  }
  Cancel({heard ? Code::kDeadlineExceeded : Code::kUnavailable,
          heard ? reasons::kStalled : reasons::kPeerDown,
          "node " + destination_ + " has not read its staged bytes for " +
              std::to_string(std::chrono::duration_cast<std::chrono::seconds>(waited).count()) +
              " s, and other transfers wait for these slots"});
}

void SourceRun::Close(const Status& why) {
  if (std::exchange(closing_, true)) return;
  parts_open_ = 1;
  if (stage_ != nullptr) {
    ++parts_open_;
    stage_->Close(why, [self = shared_from_this()](std::vector<ExecutedStep> steps) {
      self->steps_ = std::move(steps);
      self->OnePartClosed();
    });
  }
  ++parts_open_;
  if (lent_) {
    CloseLoan();
  } else {
    CloseRange();
  }
  OnePartClosed();
}

void SourceRun::CloseLoan() {
  if (finish_) return OnePartClosed();
  needs_.exporter.Recall(destination_, ticket_.memory, id_,
                         [self = shared_from_this()] { self->OnePartClosed(); });
}

void SourceRun::CloseRange() {
  if (range_ == nullptr) return OnePartClosed();
  range_->Close([self = shared_from_this()] { self->OnePartClosed(); });
}

void SourceRun::OnePartClosed() {
  if (--parts_open_ > 0) return;
  closed_ = true;
  if (failure_.ok() && region_ != nullptr) failure_ = region_->CheckIntact();
  // A right that ended while the key was being made: nothing of it may be left for the next
  // transfer.
  const bool revoked = failure_.code() == Code::kPermissionDenied;
  if (revoked && region_ != nullptr) needs_.context.EndLeases(region_);
  stage_.reset();
  channel_.reset();
  AfterClosed();
}

void SourceRun::AfterClosed() {
  if (!finish_) {
    // Closed from here. The buffer goes free; Finish, if it comes, still gets its answer.
    region_.reset();
    return End();
  }
  if (!finish_->checksum || !failure_.ok() || !finish_->status.ok() || region_ == nullptr)
    return AnswerFinish({});
  needs_.checksums.SumTree(region_, ticket_.place.range, ticket_.place.layout, stop_, payer_,
                           [self = shared_from_this()](Result<digest::TreeSum> sum) {
                             if (!sum.ok() && self->failure_.ok()) self->failure_ = sum.status();
                             self->AnswerFinish(sum.ok() ? *std::move(sum) : digest::TreeSum());
                           });
}

void SourceRun::Finish(const FinishRequest& request, Reply<FinishReply> reply) {
  if (finish_) {
    return reply(
        Status(Code::kFailedPrecondition, reasons::kBadArgument, "the transfer is already ending"));
  }
  finish_ = request;
  if (request.status.ok()) ticket_.unproven += request.unproven ? 1 : kMostUnproven + 1;
  finish_reply_ = std::move(reply);
  if (closed_) return AfterClosed();
  Close(request.status.ok()
            ? Status(Code::kCancelled, reasons::kCancelled, "the destination has finished")
            : request.status);
}

void SourceRun::AnswerFinish(digest::TreeSum checksum) {
  FinishReply reply;
  reply.failure = failure_;
  reply.steps = steps_;
  reply.checksum = std::move(checksum);
  reply.shared = shared_ || needs_.transfers.begun() != begun_;
  if (region_ != nullptr && region_->file() != nullptr) reply.storage = region_->file()->how();
  std::exchange(finish_reply_, nullptr)(std::move(reply));
  End();
}

void SourceRun::WhenEnded(Task then) {
  if (over_) return then();
  when_over_.push_back(std::move(then));
}

void SourceRun::End() {
  const auto keep = shared_from_this();
  region_.reset();
  // Whatever has become of the record: a transfer that was given up has none.
  if (!std::exchange(over_, true)) needs_.buffers.Release(ticket_.buffer, id_);
  TransferRecord* record = needs_.transfers.Find(id_);
  if (record != nullptr && record->run.get() == this) needs_.transfers.EndRun(*record);
  for (Task& then : std::exchange(when_over_, {})) then();
}

}  // namespace onecopy::engine
