#include "daemon/engine/local_move.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/engine/context.h"
#include "daemon/engine/slots.h"
#include "transport/core/reasons.h"

namespace onecopy::engine {
namespace {

constexpr uint32_t kBounceSlots = 16;
// Of one chunk, where both sides are strided by unlike elements.
constexpr uint64_t kMostCopies = 65536;

using Hops = std::vector<std::pair<RegionRef, RegionRef>>;
using Routes = std::vector<std::unique_ptr<CopyRoute>>;

Result<Routes> PrepareAll(const Context& context, const Hops& hops) {
  Routes routes;
  for (const auto& [from, to] : hops) {
    Memory* memory = context.CopierFor(from->place(), to->place());
    if (memory == nullptr) {
      return Status(Code::kFailedPrecondition, reasons::kNotApplicable,
                    "nothing on node " + context.node() + " copies from " + from->step_name() +
                        " to " + to->step_name());
    }
    ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<CopyRoute> route, memory->Prepare(from, to));
    routes.push_back(std::move(route));
  }
  return routes;
}

bool PreparedAtOnce(const Context& context, const Hops& hops) {
  return std::all_of(hops.begin(), hops.end(), [&](const auto& hop) {
    const Memory* memory = context.CopierFor(hop.first->place(), hop.second->place());
    return memory != nullptr && memory->prepares_at_once();
  });
}

}  // namespace

LocalMove::LocalMove(Parts& parts, const plan::Path& path, Area source, Area destination)
    : parts_(parts),
      path_(path),
      source_(std::move(source)),
      destination_(std::move(destination)) {}

void LocalMove::Start(Task running, Done done) {
  self_ = shared_from_this();
  running_ = std::move(running);
  done_ = std::move(done);
  if (!path_.source_staged && !path_.destination_staged) return PrepareRoutes();
  parts_.slots.Acquire(
      Purpose::kReceive, kBounceSlots, [self = self_](Result<pipeline::SlotLease> lease) {
        if (!lease.ok()) return self->End(MoveOutcome::NotBegun(lease.status()));
        self->lease_ = pipeline::InLongSlots(std::move(*lease), self->source_.payload());
        self->PrepareRoutes();
      });
}

void LocalMove::PrepareRoutes() {
  if (!stopped_.ok()) return End(MoveOutcome::NotBegun(stopped_));
  Hops hops = {{source_.span.region, destination_.span.region}};
  if (lease_)
    hops = {{source_.span.region, lease_->slab}, {lease_->slab, destination_.span.region}};
  if (PreparedAtOnce(parts_.context, hops)) {
    Result<Routes> routes = PrepareAll(parts_.context, hops);
    if (!routes.ok()) return End(MoveOutcome::NotBegun(routes.status()));
    return Run({std::make_move_iterator(routes->begin()), std::make_move_iterator(routes->end())});
  }
  const std::string& worker =
      WorkerOf(source_.span.region->place().device.empty() ? destination_.span.region->place()
                                                           : source_.span.region->place());
  parts_.context.workers.Run<Routes>(
      worker,
      [&context = parts_.context, hops = std::move(hops)] { return PrepareAll(context, hops); },
      [self = self_, worker](Result<Routes> routes) {
        if (!routes.ok()) return self->End(MoveOutcome::NotBegun(routes.status()));
        std::vector<std::shared_ptr<CopyRoute>> shared;
        for (auto& route : *routes) {
          shared.push_back(self->parts_.context.workers.ShareAny(worker, std::move(route)));
        }
        if (!self->stopped_.ok()) return self->End(MoveOutcome::NotBegun(self->stopped_));
        self->Run(std::move(shared));
      });
}

void LocalMove::Run(std::vector<std::shared_ptr<CopyRoute>> routes) {
  Executor& executor = routes.back()->executor();
  const uint64_t bytes = source_.payload();
  const LayoutRef& from = source_.layout;
  const LayoutRef& to = destination_.layout;
  const uint64_t chunk =
      lease_ ? lease_->slot_bytes
             : ChunkFor(from.get(), to.get(), routes.front()->chunk_bytes(), kMostCopies);
  std::vector<std::unique_ptr<pipeline::Place>> places;
  places.push_back(
      std::make_unique<pipeline::SourceRange>(source_.span.offset, bytes, chunk, from));
  if (lease_) places.push_back(std::make_unique<pipeline::SlotRing>(*lease_));
  places.push_back(
      std::make_unique<pipeline::DestinationRange>(destination_.span.offset, bytes, to));
  std::vector<pipeline::Stage> stages;
  for (size_t i = 0; i < routes.size(); ++i) {
    const unsigned depth = routes[i]->depth();
    const pipeline::Layouts layouts{i == 0 ? from : nullptr, i + 1 == routes.size() ? to : nullptr};
    stages.push_back(
        {std::make_unique<pipeline::CopyMover>(std::move(routes[i]), executor, layouts), depth});
  }
  chain_ = std::make_shared<pipeline::Chain>(executor, std::move(places), std::move(stages));
  running_();
  chain_->Start([self = self_](pipeline::ChainReport report) {
    self->parts_.context.loop.Post([self, report = std::move(report)] {
      MoveOutcome outcome;
      outcome.began = true;
      AddReport(report, {}, &outcome);
      self->End(std::move(outcome));
    });
  });
}

void LocalMove::Stop(const Status& why) {
  if (!stopped_.ok()) return;
  stopped_ = why;
  if (chain_ != nullptr) chain_->Stop(why);
}

void LocalMove::End(MoveOutcome outcome) {
  const std::shared_ptr<LocalMove> keep = std::exchange(self_, nullptr);
  lease_.reset();
  source_.span.region.reset();
  destination_.span.region.reset();
  std::exchange(done_, nullptr)(std::move(outcome));
}

}  // namespace onecopy::engine
