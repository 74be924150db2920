#include "daemon/engine/remote_move.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "daemon/engine/catalog.h"
#include "daemon/engine/context.h"
#include "daemon/engine/peers.h"
#include "daemon/engine/probes.h"
#include "daemon/engine/registrations.h"
#include "daemon/engine/slots.h"
#include "daemon/pipeline/remote_places.h"
#include "daemon/plan/lane_rates.h"
#include "transport/core/reasons.h"
#include "transport/os/machine.h"

namespace onecopy::engine {
namespace {

constexpr uint64_t kLeastChunk = 4096;
// Of one chunk, where elements are got one by one.
constexpr uint64_t kMostGets = 1024;
// Of a slot, over sockets: all lanes have work after the first few slots, and end together.
constexpr uint64_t kPieces = 4;
constexpr uint64_t kLeastPiece = 256 << 10;

uint64_t ChunkForGets(const pipeline::Layouts& layouts, uint64_t chunk_bytes) {
  for (const LayoutRef& layout : {layouts.from, layouts.to}) {
    const uint64_t element = layout == nullptr ? 0 : layout->least_element();
    if (element != 0 && element < chunk_bytes / kMostGets) chunk_bytes = element * kMostGets;
  }
  return chunk_bytes;
}

}  // namespace

LayoutRef RemoteMove::Order::source_layout() const {
  if (ranges == nullptr || ranges->source.contiguous()) return nullptr;
  return {ranges, &ranges->source};
}

RemoteMove::RemoteMove(Parts& parts, Order order, Area destination)
    : parts_(parts),
      order_(std::move(order)),
      destination_(std::move(destination)),
      source_half_(std::make_shared<SourceHalf>(parts, order_.source_node, order_.transfer.id,
                                                order_.checksum)) {}

bool RemoteMove::Over(const Status& step) {
  if (step.ok() && stopped_.ok()) return false;
  outcome_.status = stopped_.ok() ? step : stopped_;
  FinishSource();
  return true;
}

void RemoteMove::Start(Task running, Done done) {
  self_ = shared_from_this();
  running_ = std::move(running);
  done_ = std::move(done);
  parts_.connections.Get(
      order_.source_node, order_.path.link, [self = self_](Result<Connections::Use> use) {
        if (self->Over(use.status())) return;
        self->use_ = std::move(*use);
        self->channel_id_ = os::RandomNumber();
        self->channel_ =
            std::make_unique<pipeline::Channel>(self->use_->connection, self->channel_id_);
        if (self->order_.path.destination_staged) return self->TakeSlots();
        self->RegisterTarget();
      });
}

void RemoteMove::TakeSlots() {
  const uint32_t wanted = use_->connection->depth() * 2;
  parts_.slots.Acquire(Purpose::kReceive, wanted,
                       [self = self_](Result<pipeline::SlotLease> lease) {
                         if (self->Over(lease.status())) return;
                         self->lease_ = std::move(*lease);
                         self->PrepareRoute();
                       });
}

void RemoteMove::PrepareRoute() {
  Memory* memory =
      parts_.context.CopierFor(lease_->slab->place(), destination_.span.region->place());
  if (memory == nullptr) {
    Over({Code::kFailedPrecondition, reasons::kNotApplicable,
          "nothing here copies from host memory to " + destination_.span.region->step_name()});
    return;
  }
  const std::string& worker = WorkerOf(destination_.span.region->place());
  parts_.context.workers.Run<std::unique_ptr<CopyRoute>>(
      worker,
      [memory, from = lease_->slab, to = destination_.span.region] {
        return memory->Prepare(from, to);
      },
      [self = self_, worker](Result<std::unique_ptr<CopyRoute>> route) {
        if (route.ok())
          self->route_ = self->parts_.context.workers.ShareAny(worker, std::move(*route));
        if (!self->Over(route.status())) self->RegisterTarget();
      });
}

void RemoteMove::RegisterTarget() {
  parts_.registrations.Ensure(order_.path.link, lease_ ? lease_->slab : destination_.span.region,
                              lease_ ? std::string() : order_.client_buffer,
                              [self = self_](const Status& registered) {
                                if (!self->Over(registered)) self->AskSource();
                              });
}

void RemoteMove::AskSource() {
  PrepareRequest request;
  request.ticket = order_.ticket;
  request.id = order_.transfer.id;
  request.connection = use_->number;
  request.channel = channel_id_;
  request.staged = order_.path.source_staged;
  if (request.staged) request.chunk_bytes = lease_ ? lease_->slot_bytes : parts_.slots.slot_bytes();
  request.deadline = order_.deadline;
  request.transfer = order_.transfer;
  source_half_->Prepare(std::move(request), [self = self_](Result<PrepareReply> reply) {
    if (!self->Over(reply.status())) self->Run(std::move(*reply));
  });
}

void RemoteMove::Run(PrepareReply prepared) {
  source_ = std::move(prepared);
  Connection& connection = *use_->connection;
  const uint64_t bytes = destination_.payload();
  const bool staged = order_.path.source_staged;
  if (staged &&
      (source_.slot_bytes < kLeastChunk || (lease_ && source_.slot_bytes > lease_->slot_bytes))) {
    Over({Code::kUnavailable, reasons::kLinkDown,
          "node " + order_.source_node + " offers slots of " + std::to_string(source_.slot_bytes) +
              " bytes"});
    return;
  }
  const pipeline::Layouts gets{staged ? nullptr : order_.source_layout(),
                               lease_ ? nullptr : destination_.layout};
  std::vector<std::unique_ptr<pipeline::Place>> places;
  std::vector<pipeline::Stage> stages;
  if (staged) {
    places.push_back(std::make_unique<pipeline::RemoteRing>(*channel_, bytes, source_.slot_bytes));
  } else {
    const uint64_t most = lease_ ? lease_->slot_bytes : connection.chunk_bytes();
    places.push_back(std::make_unique<pipeline::SourceRange>(
        0, bytes, ChunkForGets(gets, std::min(most, connection.chunk_bytes())), gets.from));
  }
  const LinkCapability* link = parts_.catalog.capabilities().FindLink(order_.path.link);
  const bool sockets = staged && link != nullptr && !link->rdma;
  const uint64_t piece = sockets ? std::max(source_.slot_bytes / kPieces, kLeastPiece)
                                 : std::numeric_limits<uint64_t>::max();
  stages.push_back({std::make_unique<pipeline::GetMover>(
                        use_->connection, channel_id_, source_.key,
                        lease_ ? lease_->slab : destination_.span.region, LaneRates(), gets, piece),
                    connection.depth()});
  if (lease_) {
    places.push_back(std::make_unique<pipeline::SlotRing>(*lease_));
    const unsigned depth = route_->depth();
    stages.push_back(
        {std::make_unique<pipeline::CopyMover>(route_, connection.executor(),
                                               pipeline::Layouts{nullptr, destination_.layout}),
         depth});
  }
  places.push_back(std::make_unique<pipeline::DestinationRange>(destination_.span.offset, bytes,
                                                                destination_.layout));
  chain_ = std::make_shared<pipeline::Chain>(connection.executor(), std::move(places),
                                             std::move(stages));
  connection.Evidence([self = self_](auto counters) {
    self->parts_.context.loop.Post([self, counters = std::move(counters)] {
      for (const auto& [name, count] : counters) self->counters_before_[name] = count;
    });
  });
  outcome_.began = true;
  running_();
  chain_->Start([self = self_](pipeline::ChainReport report) {
    self->parts_.context.loop.Post([self, report = std::move(report)] {
      AddReport(report, self->use_->connection->lanes(), &self->outcome_);
      self->GatherEvidence([self] { self->FlushTarget(); });
    });
  });
}

std::vector<double> RemoteMove::LaneRates() const {
  const NodeCapability& here = parts_.catalog.capabilities();
  const bool self = parts_.context.IsSelf(order_.source_node);
  const NodeCapability* there = self ? &here : parts_.peers.Capabilities(order_.source_node);
  const std::vector<LaneInfo>& lanes = use_->connection->lanes();
  if (there == nullptr || lanes.size() < 2) return {};
  const plan::WireEnd slots{"host", {}};
  const Place& place = destination_.span.region->place();
  const plan::Wire wire{
      order_.path.link, order_.path.source_staged ? slots : order_.source_memory,
      order_.path.destination_staged ? slots : plan::WireEnd{place.kind, place.device}};
  return plan::LaneRates(wire, lanes, *there, here, parts_.probes.EstimatesFor(order_.source_node));
}

void RemoteMove::Stop(const Status& why) {
  if (!stopped_.ok()) return;
  stopped_ = why;
  if (chain_ != nullptr) chain_->Stop(why);
}

void RemoteMove::GatherEvidence(UniqueFunction<void()> then) {
  outcome_.access =
      use_->connection->Access(source_.key, lease_ ? *lease_->slab : *destination_.span.region);
  use_->connection->Evidence([self = self_, then = std::move(then)](auto counters) mutable {
    self->parts_.context.loop.Post(
        [self, counters = std::move(counters), then = std::move(then)]() mutable {
          for (const auto& [name, count] : counters) {
            const uint64_t before = self->counters_before_[name];
            if (count > before) self->outcome_.evidence[name] = std::to_string(count - before);
          }
          then();
        });
  });
}

void RemoteMove::FlushTarget() {
  const LinkCapability* link = parts_.catalog.capabilities().FindLink(order_.path.link);
  const bool needed = outcome_.status.ok() && !lease_ && link != nullptr && link->rdma &&
                      destination_.span.region->needs_flush();
  if (!needed) return FinishSource();
  parts_.context.workers.Run<bool>(
      WorkerOf(destination_.span.region->place()),
      [region = destination_.span.region]() -> Result<bool> {
        ONECOPY_RETURN_IF_ERROR(region->FlushRemoteWrites());
        return true;
      },
      [self = self_](const Result<bool>& flushed) {
        if (!flushed.ok()) self->outcome_.status = flushed.status();
        self->FinishSource();
      });
}

void RemoteMove::FinishSource() {
  chain_.reset();
  route_.reset();
  lease_.reset();
  channel_.reset();
  source_half_->Finish(!stopped_.ok(), destination_.payload(), std::move(outcome_),
                       [self = self_](MoveOutcome outcome) {
                         self->outcome_ = std::move(outcome);
                         self->End();
                       });
}

void RemoteMove::End() {
  if (self_ == nullptr) return;
  const std::shared_ptr<RemoteMove> keep = std::exchange(self_, nullptr);
  use_.reset();
  destination_.span.region.reset();
  std::exchange(done_, nullptr)(std::move(outcome_));
}

}  // namespace onecopy::engine
