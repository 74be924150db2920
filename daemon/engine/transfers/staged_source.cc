#include "daemon/engine/transfers/staged_source.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/routes.h"
#include "daemon/pipeline/places.h"
#include "daemon/pipeline/remote_places.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {

void StagedSource::Start(Events events) {
  events_ = std::move(events);
  slots_->Slab([self = shared_from_this()](Result<RegionRef> slab) {
    if (self->closing_) return;
    if (!slab.ok()) return self->Fail(slab.status());
    self->Prepare(*slab);
  });
}

void StagedSource::Prepare(const RegionRef& slab) {
  const RegionRef& region = params_.area.span.region;
  PrepareRoute(context_, {WorkerOf(region->place()), params_.payer}, region, slab,
               [self = shared_from_this(), slab](Result<std::shared_ptr<CopyRoute>> route) {
                 if (self->closing_) return;
                 if (!route.ok()) return self->Fail(route.status());
                 self->route_ = std::move(*route);
                 self->registrations_.Ensure(self->params_.link, slab, {}, {}, self->params_.payer,
                                             [self](const Status& registered) {
                                               if (self->closing_) return;
                                               if (!registered.ok()) return self->Fail(registered);
                                               self->TakeSlots();
                                             });
               });
}

void StagedSource::TakeSlots() {
  Slots::Params params;
  params.purpose = Purpose::kSend;
  params.owner = params_.owner;
  params.payer = params_.payer;
  params.payload = end() - params_.skip;
  params.most = params_.connection->depth() * 2;
  params.executor = &params_.connection->executor();
  share_ = slots_->Open(std::move(params), [self = shared_from_this()] {
    if (!self->closing_) self->Begin();
  });
  lent_slots_ = std::make_shared<pipeline::LentSlots>(params_.connection, share_);
}

void StagedSource::Begin() {
  const uint64_t bytes = end();
  const LayoutRef& layout = params_.area.layout;
  // A reader with smaller slots sets the size of the chunks.
  const uint64_t chunk_bytes = std::min(slots_->slot_bytes(), params_.chunk_bytes);
  pipeline::Places places;
  places.source = std::make_unique<pipeline::SourceRange>(
      params_.area.span.offset, bytes, chunk_bytes, layout, pipeline::Cut{}, params_.skip);
  places.destination =
      std::make_unique<pipeline::ExportedSlots>(lent_slots_, *params_.channel, bytes, params_.skip);
  events_.ready(chunk_bytes, *route_->steps());
  route_->SetFlow(params_.flow);
  Executor& executor = params_.connection->executor();
  std::vector<pipeline::Stage> stages(1);
  stages[0].depth = route_->depth();
  stages[0].mover = std::make_unique<pipeline::CopyMover>(std::move(route_), executor,
                                                          pipeline::Layouts{layout, nullptr});
  chain_ = std::make_shared<pipeline::Chain>(executor, std::move(places), std::move(stages));
  chain_running_ = true;
  chain_->Start([self = shared_from_this()](pipeline::ChainReport report) {
    self->context_.loop.Post([self, report = std::move(report)] {
      self->chain_running_ = false;
      for (const ExecutedStep& entry : report.steps) {
        self->steps_.push_back(entry);
      }
      if (self->closing_) return self->OnePartClosed();
      // All read: the destination will say Finish. Not all, and this node did not end it: say
      // why.
      if (!report.status.ok()) self->Fail(report.status);
    });
  });
}

void StagedSource::Fail(const Status& why) {
  // Closing, which may come of it, lets the events go.
  if (auto failed = std::exchange(events_.failed, nullptr)) failed(why);
}

std::optional<pipeline::WaitingMessage> StagedSource::Waits() const {
  using For = pipeline::WaitingMessage::For;
  if (share_ == nullptr) return pipeline::WaitingMessage{For::kMemory, 0};
  if (!slots_->Waits(*share_)) return std::nullopt;
  return pipeline::WaitingMessage{For::kSlots, slots_->Ahead(*share_)};
}

std::optional<os::Clock::time_point> StagedSource::OwesSlotsSince() const {
  return share_ == nullptr ? std::nullopt : slots_->OwesSince(*share_);
}

void StagedSource::Close(const Status& why,
                         UniqueFunction<void(std::vector<ExecutedStep>)> closed) {
  closing_ = true;
  closed_ = std::move(closed);
  parts_open_ = 1;
  if (chain_running_) {
    ++parts_open_;
    chain_->Stop(why);
  }
  if (lent_slots_ != nullptr) {
    ++parts_open_;
    lent_slots_->Close([self = shared_from_this()] {
      self->context_.loop.Post([self] { self->OnePartClosed(); });
    });
  }
  OnePartClosed();
}

void StagedSource::OnePartClosed() {
  if (--parts_open_ > 0) return;
  chain_.reset();
  route_.reset();
  lent_slots_.reset();
  share_.reset();
  params_.area.span.region.reset();
  events_ = {};
  std::exchange(closed_, nullptr)(std::move(steps_));
}

}  // namespace onecopy::engine
