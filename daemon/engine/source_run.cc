#include "daemon/engine/source_run.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/buffers.h"
#include "daemon/engine/context.h"
#include "daemon/engine/lender.h"
#include "daemon/engine/registrations.h"
#include "daemon/engine/slots.h"
#include "daemon/engine/transfers.h"
#include "daemon/log/log.h"
#include "daemon/pipeline/remote_places.h"
#include "transport/core/reasons.h"

namespace onecopy::engine {
namespace {

std::vector<ExecutedStep> Planned(const StepList& steps) {
  std::vector<ExecutedStep> planned;
  for (const Step& step : *steps) planned.push_back({step, 0});
  return planned;
}

}  // namespace

SourceRun::SourceRun(Parts& parts, TransferId id, std::string destination, const Ticket& ticket,
                     RegionRef region, Connections::Serving serving)
    : parts_(parts),
      id_(std::move(id)),
      destination_(std::move(destination)),
      ticket_(ticket),
      region_(std::move(region)),
      link_(std::move(serving.link)),
      connection_(std::move(serving.connection)),
      lent_(connection_ == nullptr) {}

void SourceRun::Prepare(const PrepareRequest& request, Reply<PrepareReply> reply) {
  if (lent_) {
    PrepareReply prepared;
    prepared.lent = ticket_.range;
    return reply(std::move(prepared));
  }
  prepare_reply_ = std::move(reply);
  channel_ = std::make_unique<pipeline::Channel>(connection_, request.channel);
  if (!request.staged) return Open({region_, ticket_.range.offset, ticket_.range.bytes}, 0, {});
  chunk_bytes_ = request.chunk_bytes;
  parts_.slots.Acquire(Purpose::kSend, connection_->depth() * 2,
                       [self = shared_from_this()](auto lease) {
                         if (!lease.ok()) return self->Cancel(lease.status());
                         if (!self->closing_) self->Stage(std::move(*lease));
                       });
}

void SourceRun::Stage(pipeline::SlotLease lease) {
  // A reader with smaller slots sets the size of the chunks; the bytes of the lease stay the same.
  const uint64_t bytes = lease.slots * lease.slot_bytes;
  lease.slot_bytes = std::min(lease.slot_bytes, chunk_bytes_);
  lease.slots = static_cast<uint32_t>(bytes / lease.slot_bytes);
  Memory* memory = parts_.context.CopierFor(region_->place(), lease.slab->place());
  if (memory == nullptr) {
    return Cancel({Code::kFailedPrecondition, reasons::kNotApplicable,
                   "nothing here copies from " + region_->step_name() + " to host memory"});
  }
  const std::string worker =
      region_->place().device.empty() ? region_->place().kind : region_->place().device;
  lease_ = lease;
  parts_.context.workers.Run<std::unique_ptr<CopyRoute>>(
      worker, [memory, from = region_, to = lease.slab] { return memory->Prepare(from, to); },
      [self = shared_from_this(), worker](Result<std::unique_ptr<CopyRoute>> route) {
        if (!route.ok()) return self->Cancel(route.status());
        const auto shared = self->parts_.context.workers.ShareAny(worker, std::move(*route));
        if (self->closing_) return;
        const pipeline::SlotLease& lease = *self->lease_;
        self->StartChain(shared);
        self->Open({lease.slab, lease.first_byte, lease.slots * lease.slot_bytes}, lease.slot_bytes,
                   Planned(shared->steps()));
      });
}

void SourceRun::Open(const Span& span, uint64_t slot_bytes, std::vector<ExecutedStep> steps) {
  // A buffer on its way out is being let go, and so is this transfer.
  const Buffer* buffer = lease_ ? nullptr : parts_.buffers.FindById(ticket_.buffer);
  const bool client = buffer != nullptr && buffer->registered;
  parts_.registrations.Ensure(link_, span.region, client ? buffer->name : std::string(),
                              [self = shared_from_this(), span, slot_bytes,
                               steps = std::move(steps)](const Status& registered) mutable {
                                if (!registered.ok()) return self->Cancel(registered);
                                if (!self->closing_)
                                  self->Expose(span, slot_bytes, std::move(steps));
                              });
}

void SourceRun::Expose(const Span& span, uint64_t slot_bytes, std::vector<ExecutedStep> steps) {
  exposing_ = true;
  connection_->Expose(span, [self = shared_from_this(), slot_bytes,
                             steps = std::move(steps)](Result<RemoteKey> key) mutable {
    self->parts_.context.loop.Post(
        [self, slot_bytes, steps = std::move(steps), key = std::move(key)]() mutable {
          self->exposing_ = false;
          if (key.ok()) self->key_ = *key;
          // Closed meanwhile: this was what the closing waited for.
          if (self->closing_) return self->CloseKey();
          if (!key.ok()) return self->Cancel(key.status());
          std::exchange(self->prepare_reply_,
                        nullptr)(PrepareReply{*key, slot_bytes, std::move(steps)});
        });
  });
}

void SourceRun::StartChain(std::shared_ptr<CopyRoute> route) {
  const uint64_t bytes = ticket_.payload();
  std::vector<std::unique_ptr<pipeline::Place>> places;
  places.push_back(std::make_unique<pipeline::SourceRange>(ticket_.range.offset, bytes,
                                                           lease_->slot_bytes, ticket_.layout));
  places.push_back(std::make_unique<pipeline::ExposedRing>(*lease_, *channel_, bytes));
  std::vector<pipeline::Stage> stages(1);
  stages[0].depth = std::min(route->depth(), lease_->slots);
  stages[0].mover = std::make_unique<pipeline::CopyMover>(
      std::move(route), connection_->executor(), pipeline::Layouts{ticket_.layout, nullptr});
  chain_ = std::make_shared<pipeline::Chain>(connection_->executor(), std::move(places),
                                             std::move(stages));
  chain_running_ = true;
  chain_->Start([self = shared_from_this()](pipeline::ChainReport report) {
    self->parts_.context.loop.Post([self, report = std::move(report)] {
      self->chain_running_ = false;
      for (const StepTally::Entry& entry : report.steps)
        self->steps_.push_back({entry.step, entry.bytes});
      if (self->closing_) return self->OnePartClosed();
      // All sent: the destination will say Finish. Not all, and nobody here wanted it to end: say
      // why.
      if (!report.status.ok()) self->Cancel(report.status);
    });
  });
}

void SourceRun::Cancel(const Status& why) {
  if (failure_.ok()) {
    failure_ = why;
    // So that a destination that waits for the next chunk stops waiting; it then asks, by Finish,
    // what happened.
    if (channel_ != nullptr) (void)channel_->Send(pipeline::FailedMessage{why});
  }
  Close(why);
}

void SourceRun::Tick() {
  TransferRecord* record = parts_.transfers.Find(id_);
  if (record == nullptr || chain_ == nullptr || chain_->bytes_done() <= record->info.bytes_done)
    return;
  record->info.bytes_done = chain_->bytes_done();
  parts_.transfers.Changed(*record);
}

void SourceRun::Close(const Status& why) {
  if (std::exchange(closing_, true)) return;
  if (prepare_reply_) std::exchange(prepare_reply_, nullptr)(why);
  parts_open_ = 1;
  if (chain_running_) {
    ++parts_open_;
    chain_->Stop(why);
  }
  ++parts_open_;
  if (lent_) {
    CloseLoan();
  } else if (!exposing_) {
    CloseKey();
  }
  OnePartClosed();
}

void SourceRun::CloseLoan() {
  if (finish_) return OnePartClosed();
  parts_.lender.Recall(destination_, ticket_.buffer, id_,
                       [self = shared_from_this()] { self->OnePartClosed(); });
}

void SourceRun::CloseKey() {
  if (!key_) return OnePartClosed();
  connection_->Withdraw(*key_, [self = shared_from_this()](const OwnerSteps& steps) {
    self->parts_.context.loop.Post([self, steps] {
      for (const StepTally::Entry& entry : steps) self->sent_.push_back({entry.step, entry.bytes});
      self->OnePartClosed();
    });
  });
}

void SourceRun::OnePartClosed() {
  if (--parts_open_ > 0) return;
  closed_ = true;
  // A right that ended while the key was being made: nothing of it may be left for the next
  // transfer.
  const bool revoked = failure_.code() == Code::kPermissionDenied;
  if (revoked && region_ != nullptr) parts_.context.EndLeases(region_);
  chain_.reset();
  lease_.reset();
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
  parts_.checksums.Sum(region_, ticket_.range, ticket_.layout, stop_,
                       [self = shared_from_this()](Result<std::string> sum) {
                         if (!sum.ok() && self->failure_.ok()) self->failure_ = sum.status();
                         self->AnswerFinish(sum.ok() ? *sum : std::string());
                       });
}

void SourceRun::Finish(const FinishRequest& request, Reply<FinishReply> reply) {
  if (finish_) {
    return reply(Status(Code::kFailedPrecondition, reasons::kBadArgument,
                        "the transfer is being finished already"));
  }
  finish_ = request;
  finish_reply_ = std::move(reply);
  if (closed_) return AfterClosed();
  Close(request.status.ok()
            ? Status(Code::kCancelled, reasons::kCancelled, "the destination has finished")
            : request.status);
}

void SourceRun::AnswerFinish(const std::string& checksum) {
  FinishReply reply;
  reply.failure = failure_;
  reply.steps = steps_;
  reply.steps.insert(reply.steps.end(), sent_.begin(), sent_.end());
  reply.checksum = checksum;
  std::exchange(finish_reply_, nullptr)(std::move(reply));
  End();
}

void SourceRun::End() {
  region_.reset();
  TransferRecord* record = parts_.transfers.Find(id_);
  if (record == nullptr || record->run.get() != this) return;
  parts_.buffers.LetGo(ticket_.buffer, id_);
  parts_.transfers.EndRun(*record);
}

}  // namespace onecopy::engine
