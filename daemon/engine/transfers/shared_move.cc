#include "daemon/engine/transfers/shared_move.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/move.h"
#include "daemon/engine/base/routes.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {

SharedMove::SharedMove(Context& context, Peers& peers, MemoryImporter& importer,
                       const Series& series, RemoteMove::Params params, Area destination)
    : context_(context),
      peers_(peers),
      importer_(importer),
      series_(series),
      params_(std::move(params)),
      destination_(std::move(destination)),
      remote_source_(std::make_shared<RemoteSource>(context, peers, params_.source_node,
                                                    params_.transfer.id, params_.checksum,
                                                    params_.unproven)) {}

bool SharedMove::Over(const Status& step) {
  if (step.ok() && stopped_.ok() && recalled_.ok()) return false;
  outcome_.status = !stopped_.ok() ? stopped_ : !recalled_.ok() ? recalled_ : step;
  Finish();
  return true;
}

MemoryImporter::Recalled SharedMove::OnRecall() {
  return [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->recalled_ =
        Status(Code::kAborted, reasons::kOwnerDied,
               "node " + self->params_.source_node + " has revoked the source's memory");
    if (self->chain_ != nullptr) self->chain_->Stop(self->recalled_);
  };
}

void SharedMove::Start(Task running, Done done) {
  self_ = shared_from_this();
  running_ = std::move(running);
  done_ = std::move(done);
  use_ = importer_.Find(params_.source_node, memory(), {params_.transfer.id, OnRecall()});
  found_ = use_ != nullptr;
  if (found_) return Prepare();
  ImportMemory();
}

const std::string& SharedMove::memory() const {
  return params_.memory_id.empty() ? params_.transfer.source.buffer : params_.memory_id;
}

void SharedMove::ImportMemory() {
  waits_for_ = "node " + params_.source_node + " to lend the source's memory";
  Result<PeerApi*> peer = peers_.Find(params_.source_node);
  if (Over(peer.status())) return;
  (*peer)->ImportMemory(context_.node(), {params_.ticket, params_.transfer.id},
                        [self = self_](const Result<MemoryExport>& loan) {
                          if (!self->Over(loan.status())) self->Fetch(*loan);
                        });
}

void SharedMove::Fetch(const MemoryExport& loan) {
  importer_.Get(params_.source_node, memory(), destination_.span.region->place().kind, loan,
                {params_.transfer.id, OnRecall()},
                [self = self_](Result<MemoryImporter::UseRef> use) {
                  if (use.ok()) self->use_ = std::move(*use);
                  if (!self->Over(use.status())) self->Prepare();
                });
}

void SharedMove::Prepare() {
  waits_for_ = "the memory of both ends to be opened for copying";
  const RegionRef& to = destination_.span.region;
  PrepareRoute(context_, {WorkerOf(to->place()), params_.payer}, use_->region, to,
               [self = self_](Result<std::shared_ptr<CopyRoute>> route) {
                 if (route.ok()) self->route_ = std::move(*route);
                 if (!self->Over(route.status())) self->Open();
               });
}

void SharedMove::Open() {
  waits_for_ = "node " + params_.source_node + " to open the source";
  PrepareRequest request;
  request.ticket = params_.ticket;
  request.id = params_.transfer.id;
  request.loan = use_->loan();
  request.deadline = params_.deadline;
  request.transfer = params_.transfer;
  request.series = series_.Find(params_.transfer.part_of);
  request.places = true;
  remote_source_->Prepare(std::move(request), [self = self_](Result<PrepareReply> reply) {
    if (!reply.ok() && self->found_ && reply.status().reason() == reasons::kNotShareable &&
        self->stopped_.ok() && self->recalled_.ok()) {
      // What was held from earlier is not what the buffer is now.
      self->importer_.Retire(self->params_.source_node, self->use_->loan());
      self->found_ = false;
      self->route_.reset();
      self->use_.reset();
      return self->ImportMemory();
    }
    if (!self->Over(reply.status())) self->Check(reply->lent);
  });
}

void SharedMove::Check(const ByteRange& lent) {
  const uint64_t bytes = params_.source_bytes(destination_);
  const uint64_t there = use_->region->bytes();
  if (lent.bytes != bytes || lent.offset > there || bytes > there - lent.offset) {
    Over({Code::kUnavailable, reasons::kLinkDown,
          "node " + params_.source_node + " lends " + std::to_string(lent.bytes) +
              " bytes from byte " + std::to_string(lent.offset) + " on, for a transfer from " +
              std::to_string(bytes) + " bytes out of " + std::to_string(there)});
    return;
  }
  context_.workers.Run<bool>(
      {WorkerOf(destination_.span.region->place()), params_.payer},
      [route = route_, at = lent.offset, from = params_.source_layout(),
       to = destination_]() -> Result<bool> {
        ONECOPY_RETURN_IF_ERROR(ProveRoute(*route, at, from, to));
        return true;
      },
      [self = self_, at = lent.offset](const Result<bool>& proven) {
        if (!self->Over(proven.status())) self->Run(at);
      });
}

void SharedMove::Run(uint64_t there) {
  pipeline::Places places;
  const pipeline::Layouts layouts{params_.source_layout(), destination_.layout};
  const uint64_t payload = destination_.payload();
  const uint64_t most =
      ChunkFor(layouts.from.get(), layouts.to.get(), route_->chunk_bytes(), kMaxCopies);
  const uint64_t chunk = std::min(most, params_.pace->piece_bytes());
  places.source = std::make_unique<pipeline::SourceRange>(there, payload, chunk, layouts.from);
  places.destination =
      std::make_unique<pipeline::DestinationRange>(destination_.span.offset, payload, layouts.to);
  route_->SetFlow(params_.flow);
  Executor& executor = route_->executor();
  std::vector<pipeline::Stage> stages;
  stages.push_back(
      {std::make_unique<pipeline::CopyMover>(route_, executor, layouts), route_->depth()});
  chain_ = std::make_shared<pipeline::Chain>(executor, std::move(places), std::move(stages));
  chain_->SetPace(params_.pace);
  outcome_.began = true;
  outcome_.evidence["shared"] = use_->how;
  if (const std::string proof = route_->proof(); !proof.empty()) {
    outcome_.evidence["one_pass"] = proof;
  }
  running_();
  chain_->Start([self = self_](pipeline::ChainReport report) {
    self->context_.loop.Post([self, report = std::move(report)] {
      AddReport(report, {}, &self->outcome_);
      self->Finish();
    });
  });
}

void SharedMove::Stop(const Status& why) {
  if (!stopped_.ok()) return;
  stopped_ = why;
  if (chain_ != nullptr) chain_->Stop(why);
}

std::string SharedMove::waits_for() const {
  if (chain_ == nullptr) return waits_for_;
  return WaitsForRate(*chain_, *params_.pace);
}

void SharedMove::Finish() {
  // Before the source is asked: it may be waiting for this.
  moved_ = bytes_done();
  finishing_ = true;
  waits_for_ = "node " + params_.source_node +
               (params_.checksum ? " to sum up the source" : " to release the source");
  chain_.reset();
  route_.reset();
  use_.reset();
  if (outcome_.status.ok() && stopped_.ok()) Landed();
  remote_source_->Finish(!stopped_.ok(), destination_.payload(), std::move(outcome_),
                         [self = self_](MoveOutcome outcome) {
                           self->self_ = nullptr;
                           self->destination_.span.region.reset();
                           std::exchange(self->done_, nullptr)(std::move(outcome));
                         });
}

}  // namespace onecopy::engine
