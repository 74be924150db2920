#include "daemon/engine/transfers/local_move.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/engine/base/move.h"
#include "daemon/engine/base/routes.h"
#include "daemon/pipeline/places.h"

namespace onecopy::engine {
namespace {

constexpr uint32_t kBounceSlots = 16;

using Hops = std::vector<std::pair<RegionRef, RegionRef>>;
using NewRoutes = std::vector<std::unique_ptr<CopyRoute>>;

// Blocks. `source` and `destination` are those of the whole move.
Result<NewRoutes> PrepareAll(const Context& context, const Hops& hops, const Area& source,
                             const Area& destination) {
  NewRoutes routes;
  for (const auto& [from, to] : hops) {
    Memory* memory = context.CopierFor(from->place(), to->place());
    if (memory == nullptr) return NothingCopies(context, *from, *to);
    ONECOPY_RETURN_IF_ERROR(from->CheckUsable());
    ONECOPY_RETURN_IF_ERROR(to->CheckUsable());
    ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<CopyRoute> route, memory->Prepare(from, to));
    routes.push_back(std::move(route));
  }
  if (routes.size() == 1) {
    ONECOPY_RETURN_IF_ERROR(
        ProveRoute(*routes.front(), source.span.offset, source.layout, destination));
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

LocalMove::LocalMove(Context& context, Slots& slots, const plan::Path& path, std::string owner,
                     Area source, Area destination)
    : context_(context),
      slots_(slots),
      path_(path),
      owner_(std::move(owner)),
      source_(std::move(source)),
      destination_(std::move(destination)) {}

bool LocalMove::Over(const Status& step) {
  if (self_ == nullptr) return true;
  if (step.ok() && stopped_.ok()) return false;
  End(MoveOutcome::NotBegun(stopped_.ok() ? step : stopped_));
  return true;
}

void LocalMove::Start(Task running, Done done) {
  self_ = shared_from_this();
  running_ = std::move(running);
  done_ = std::move(done);
  if (!path_.source_staged && !path_.destination_staged) return PrepareRoutes();
  slots_.Slab([self = self_](Result<RegionRef> slab) {
    if (self->Over(slab.status())) return;
    self->slab_ = std::move(*slab);
    self->PrepareRoutes();
  });
}

void LocalMove::PrepareRoutes() {
  Hops hops = {{source_.span.region, destination_.span.region}};
  if (slab_ != nullptr) {
    hops = {{source_.span.region, slab_}, {slab_, destination_.span.region}};
  }
  if (PreparedAtOnce(context_, hops)) {
    Result<NewRoutes> routes = PrepareAll(context_, hops, source_, destination_);
    if (Over(routes.status())) return;
    return TakeSlots(
        {std::make_move_iterator(routes->begin()), std::make_move_iterator(routes->end())});
  }
  const std::string& worker =
      WorkerOf(source_.span.region->place(), destination_.span.region->place());
  context_.workers.Run<NewRoutes>(
      worker,
      [&context = context_, hops = std::move(hops), source = source_, destination = destination_] {
        return PrepareAll(context, hops, source, destination);
      },
      [self = self_, worker](Result<NewRoutes> made) {
        Routes routes;
        if (made.ok()) {
          for (auto& route : *made) {
            routes.push_back(self->context_.workers.ShareAny(worker, std::move(route)));
          }
        }
        if (!self->Over(made.status())) self->TakeSlots(std::move(routes));
      });
}

void LocalMove::TakeSlots(Routes routes) {
  if (slab_ == nullptr) return Run(routes);
  Slots::Params params;
  params.purpose = Purpose::kReceive;
  params.owner = owner_;
  params.payload = source_.payload();
  params.most = kBounceSlots;
  params.executor = &routes.back()->executor();
  share_ = slots_.Open(std::move(params), [self = self_, routes = std::move(routes)] {
    if (!self->Over()) self->Run(routes);
  });
}

void LocalMove::Run(const Routes& routes) {
  Executor& executor = routes.back()->executor();
  std::string proof = routes.front()->proof();
  const uint64_t bytes = source_.payload();
  const LayoutRef& from = source_.layout;
  const LayoutRef& to = destination_.layout;
  const uint64_t slot_bytes = slots_.slot_bytes();
  const uint32_t together = pipeline::SlotsTogether(
      slot_bytes, std::min(kBounceSlots, slots_.slots(Purpose::kReceive)), bytes);
  const uint64_t chunk =
      share_ != nullptr ? slot_bytes * together
                        : ChunkFor(from.get(), to.get(), routes.front()->chunk_bytes(), kMaxCopies);
  pipeline::Places places;
  places.source = std::make_unique<pipeline::SourceRange>(source_.span.offset, bytes, chunk, from);
  if (share_ != nullptr) places.between = std::make_unique<pipeline::SlotQueue>(share_, together);
  places.destination =
      std::make_unique<pipeline::DestinationRange>(destination_.span.offset, bytes, to);
  std::vector<pipeline::Stage> stages;
  for (size_t i = 0; i < routes.size(); ++i) {
    const unsigned depth = routes[i]->depth();
    const pipeline::Layouts layouts{i == 0 ? from : nullptr, i + 1 == routes.size() ? to : nullptr};
    stages.push_back({std::make_unique<pipeline::CopyMover>(routes[i], executor, layouts), depth});
  }
  chain_ = std::make_shared<pipeline::Chain>(executor, std::move(places), std::move(stages));
  running_();
  chain_->Start([self = self_, proof = std::move(proof)](pipeline::ChainReport report) mutable {
    self->context_.loop.Post([self, proof = std::move(proof), report = std::move(report)] {
      MoveOutcome outcome;
      outcome.began = true;
      if (!proof.empty()) outcome.evidence["one_pass"] = proof;
      AddReport(report, {}, &outcome);
      self->End(std::move(outcome));
    });
  });
}

void LocalMove::Stop(const Status& why) {
  if (!stopped_.ok()) return;
  stopped_ = why;
  if (chain_ != nullptr) return chain_->Stop(why);
  // Not from here: the caller may be what is told of the end.
  context_.loop.Post([self = shared_from_this()] { self->Over(); });
}

uint64_t LocalMove::life() const {
  const bool waits = share_ != nullptr && slots_.Waits(*share_);
  return bytes_done() + (waits ? slots_.given(Purpose::kReceive) : 0);
}

std::string LocalMove::waits_for() const {
  if (share_ != nullptr && slots_.Waits(*share_)) {
    return WaitsForSlots(context_.node(), slots_.Ahead(*share_));
  }
  if (chain_ != nullptr) return {};
  return "memory of node " + context_.node() + " to be made ready";
}

void LocalMove::End(MoveOutcome outcome) {
  const std::shared_ptr<LocalMove> keep = std::exchange(self_, nullptr);
  if (keep == nullptr) return;
  chain_.reset();
  share_.reset();
  slab_.reset();
  source_.span.region.reset();
  destination_.span.region.reset();
  std::exchange(done_, nullptr)(std::move(outcome));
}

}  // namespace onecopy::engine
