#include "daemon/engine/staged_source.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/context.h"
#include "daemon/engine/registrations.h"
#include "daemon/pipeline/places.h"
#include "daemon/pipeline/remote_places.h"
#include "transport/core/reasons.h"

namespace onecopy::engine {

void StagedSource::Start(Events events) {
  events_ = std::move(events);
  parts_.slots.Slab([self = shared_from_this()](Result<RegionRef> slab) {
    if (self->closing_) return;
    if (!slab.ok()) return self->Fail(slab.status());
    self->PrepareRoute(*slab);
  });
}

void StagedSource::PrepareRoute(const RegionRef& slab) {
  const RegionRef& region = order_.area.span.region;
  Memory* memory = parts_.context.CopierFor(region->place(), slab->place());
  if (memory == nullptr) {
    return Fail({Code::kFailedPrecondition, reasons::kNotApplicable,
                 "nothing here copies from " + region->step_name() + " to host memory"});
  }
  const std::string worker = WorkerOf(region->place());
  parts_.context.workers.Run<std::unique_ptr<CopyRoute>>(
      worker, [memory, region, slab] { return memory->Prepare(region, slab); },
      [self = shared_from_this(), worker, slab](Result<std::unique_ptr<CopyRoute>> made) {
        std::shared_ptr<CopyRoute> route;
        if (made.ok()) route = self->parts_.context.workers.ShareAny(worker, std::move(*made));
        if (self->closing_) return;
        if (!made.ok()) return self->Fail(made.status());
        self->route_ = std::move(route);
        self->parts_.registrations.Ensure(self->order_.link, slab, {}, {},
                                          [self](const Status& registered) {
                                            if (self->closing_) return;
                                            if (!registered.ok()) return self->Fail(registered);
                                            self->TakeSlots();
                                          });
      });
}

void StagedSource::TakeSlots() {
  Slots::Order order;
  order.purpose = Purpose::kSend;
  order.owner = order_.owner;
  order.payload = order_.area.payload();
  order.most = order_.connection->depth() * 2;
  order.executor = &order_.connection->executor();
  share_ = parts_.slots.Open(std::move(order), [self = shared_from_this()] {
    if (!self->closing_) self->Begin();
  });
  slots_ = std::make_shared<pipeline::LentSlots>(order_.connection, share_);
}

void StagedSource::Begin() {
  const uint64_t bytes = order_.area.payload();
  const LayoutRef& layout = order_.area.layout;
  // A reader with smaller slots sets the size of the chunks.
  const uint64_t chunk_bytes = std::min(parts_.slots.slot_bytes(), order_.chunk_bytes);
  pipeline::Places places;
  places.source =
      std::make_unique<pipeline::SourceRange>(order_.area.span.offset, bytes, chunk_bytes, layout);
  places.destination = std::make_unique<pipeline::ExposedRing>(slots_, *order_.channel, bytes);
  events_.ready(chunk_bytes, *route_->steps());
  Executor& executor = order_.connection->executor();
  std::vector<pipeline::Stage> stages(1);
  stages[0].depth = route_->depth();
  stages[0].mover = std::make_unique<pipeline::CopyMover>(std::move(route_), executor,
                                                          pipeline::Layouts{layout, nullptr});
  chain_ = std::make_shared<pipeline::Chain>(executor, std::move(places), std::move(stages));
  chain_running_ = true;
  chain_->Start([self = shared_from_this()](pipeline::ChainReport report) {
    self->parts_.context.loop.Post([self, report = std::move(report)] {
      self->chain_running_ = false;
      for (const StepTally::Entry& entry : report.steps) {
        self->steps_.push_back({entry.step, entry.bytes});
      }
      if (self->closing_) return self->OnePartClosed();
      // All read: the destination will say Finish. Not all, and nobody here wanted it to end: say
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
  if (!parts_.slots.Waits(*share_)) return std::nullopt;
  return pipeline::WaitingMessage{For::kSlots, parts_.slots.Ahead(*share_)};
}

std::optional<os::Clock::time_point> StagedSource::OwesSlotsSince() const {
  return share_ == nullptr ? std::nullopt : parts_.slots.OwesSince(*share_);
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
  if (slots_ != nullptr) {
    ++parts_open_;
    slots_->Close([self = shared_from_this()] {
      self->parts_.context.loop.Post([self] { self->OnePartClosed(); });
    });
  }
  OnePartClosed();
}

void StagedSource::OnePartClosed() {
  if (--parts_open_ > 0) return;
  chain_.reset();
  route_.reset();
  slots_.reset();
  share_.reset();
  order_.area.span.region.reset();
  events_ = {};
  std::exchange(closed_, nullptr)(std::move(steps_));
}

}  // namespace onecopy::engine
