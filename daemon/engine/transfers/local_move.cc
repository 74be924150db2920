#include "daemon/engine/transfers/local_move.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/engine/base/move.h"
#include "daemon/engine/base/routes.h"
#include "daemon/pipeline/places.h"
#include "onecopy/reasons.h"
#include "transport/core/contracts/store.h"

namespace onecopy::engine {
namespace {

constexpr uint32_t kBounceSlots = 16;
constexpr const char* kDirectPath = "storage-direct";
constexpr const char* kBouncePath = "storage-bounce";

using Hops = std::vector<std::pair<RegionRef, RegionRef>>;
using NewRoutes = std::vector<std::unique_ptr<CopyRoute>>;

// Of a way through memory of a GPU: that the drive reaches it, and that it goes on from there in
// one pass. Uses memory behind the slots, where other trials may leave any bytes; the
// bytes that reach the destination are those that the transfer writes there first anyway.
// Blocks.
Status ProveBoth(const NewRoutes& routes, const Hops& hops, const Area& source,
                 const Area& destination) {
  // What the drive takes begins with a whole grain, and so does the GPU's memory.
  const uint64_t grain = routes.front()->grain();
  const uint64_t head = (grain - source.span.offset % grain) % grain;
  const uint64_t payload = source.payload();
  if (payload <= head) return OkStatus();
  const uint64_t bytes = std::min(payload - head, Slots::kSpareBytes);
  const uint64_t spare = hops.front().second->bytes() - Slots::kSpareBytes;
  ONECOPY_RETURN_IF_ERROR(routes.front()->Prove(source.span.offset + head, spare, bytes));
  return routes.back()->Prove(spare, destination.span.offset + head, bytes);
}

// Blocks. `source` and `destination` are those of the whole move.
Result<NewRoutes> PrepareAll(const Context& context, const Hops& hops, const Area& source,
                             const Area& destination, bool through_gpu) {
  NewRoutes routes;
  for (const auto& [from, to] : hops) {
    Copier* copier = context.CopierFor(from->place(), to->place());
    if (copier == nullptr) return NothingCopies(context, *from, *to);
    ONECOPY_RETURN_IF_ERROR(from->CheckUsable());
    ONECOPY_RETURN_IF_ERROR(to->CheckUsable());
    ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<CopyRoute> route, copier->Prepare(from, to));
    routes.push_back(std::move(route));
  }
  if (routes.size() == 1) {
    ONECOPY_RETURN_IF_ERROR(
        ProveRoute(*routes.front(), source.span.offset, source.layout, destination));
  }
  if (through_gpu) ONECOPY_RETURN_IF_ERROR(ProveBoth(routes, hops, source, destination));
  return routes;
}

bool PreparedAtOnce(const Context& context, const Hops& hops) {
  return std::all_of(hops.begin(), hops.end(), [&](const auto& hop) {
    const Copier* copier = context.CopierFor(hop.first->place(), hop.second->place());
    return copier != nullptr && copier->prepares_at_once();
  });
}

}  // namespace

LocalMove::LocalMove(Context& context, Slots& slots, const plan::Path& path, MoveFor whom,
                     Area source, Area destination)
    : context_(context),
      slots_(slots),
      path_(path),
      whom_(std::move(whom)),
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
  if (!path_.source_staged && !path_.destination_staged && path_.via.empty()) {
    return PrepareRoutes();
  }
  AddBounces();
  if (bounces_.size() > 1) return PrepareRoutes();
  bounces_.front().slots->Slab([self = self_](Result<RegionRef> slab) {
    // Where a GPU on the way has no room another path may do.
    const Status made = slab.ok() || self->path_.via.empty()
                            ? slab.status()
                            : Status(Code::kFailedPrecondition, slab.status().reason(),
                                     slab.status().message(), slab.status().remedy());
    if (self->Over(made)) return;
    self->bounces_.front().slab = std::move(*slab);
    self->PrepareRoutes();
  });
}

// What a client copies into its slab and what it copies out of it have slots of their own: a copy
// that was given up can then never fall into bytes that go the other way.
void LocalMove::AddBounces() {
  const Region& from = *source_.span.region;
  const Region& to = *destination_.span.region;
  if (!path_.via.empty()) {
    const Place near{to.place().kind, path_.via};
    return bounces_.push_back({slots_.OnGpu(near, whom_.owner), Purpose::kReceive});
  }
  if (from.slab() != nullptr) bounces_.push_back({slots_.For(from), Purpose::kSend, from.slab()});
  if (to.slab() != nullptr && to.slab() != from.slab()) {
    bounces_.push_back({slots_.For(to), Purpose::kReceive, to.slab()});
  }
  if (bounces_.empty()) {
    bounces_.push_back({slots_.Near(path_.slots_numa_node), Purpose::kReceive});
  }
}

void LocalMove::PrepareRoutes() {
  Hops hops;
  RegionRef at = source_.span.region;
  for (const Bounce& bounce : bounces_) {
    hops.emplace_back(std::exchange(at, bounce.slab), bounce.slab);
  }
  hops.emplace_back(std::move(at), destination_.span.region);
  if (PreparedAtOnce(context_, hops)) {
    Result<NewRoutes> routes = PrepareAll(context_, hops, source_, destination_, false);
    if (Over(routes.status())) return;
    return TakeSlots(
        {std::make_move_iterator(routes->begin()), std::make_move_iterator(routes->end())});
  }
  const WorkQueue queue(WorkerOf(source_.span.region->place(), destination_.span.region->place()),
                        whom_.payer);
  context_.workers.Run<NewRoutes>(
      queue,
      [&context = context_, hops = std::move(hops), source = source_, destination = destination_,
       through_gpu = !path_.via.empty()] {
        return PrepareAll(context, hops, source, destination, through_gpu);
      },
      [self = self_, queue](Result<NewRoutes> made) {
        Routes routes;
        if (made.ok()) {
          for (auto& route : *made) {
            routes.push_back(self->context_.workers.ShareAny(queue, std::move(route)));
          }
        }
        if (!self->Over(made.status())) self->TakeSlots(std::move(routes));
      });
}

void LocalMove::TakeSlots(Routes routes) {
  if (bounces_.empty()) return Run(routes);
  // The last first: what is given for the first one has somewhere to go then.
  for (size_t i = bounces_.size(); i-- > 0;) {
    Bounce& bounce = bounces_[i];
    Slots::Params params;
    params.purpose = bounce.purpose;
    params.owner = whom_.owner;
    params.payer = whom_.payer;
    // As many slots as there are pieces, which need not fill them.
    const uint64_t piece = MostInSlot(bounce, routes);
    params.payload = (source_.payload() + piece - 1) / piece * bounce.slots->slot_bytes();
    params.most = MostSlots(routes);
    params.executor = &routes.back()->executor();
    Task begun;
    if (i == 0) {
      begun = [self = self_, routes] {
        if (!self->Over()) self->Run(routes);
      };
    }
    bounce.share = bounce.slots->Open(std::move(params), std::move(begun));
  }
}

bool LocalMove::OfFile() const {
  return source_.span.region->file() != nullptr || destination_.span.region->file() != nullptr;
}

// A file has as many pieces under way as it asks for while others are copied on.
uint32_t LocalMove::MostSlots(const Routes& routes) const {
  if (!OfFile()) return kBounceSlots;
  uint32_t slots = 0;
  for (const auto& route : routes) slots += route->depth();
  return slots;
}

// A whole one, except for a file that is read past the page cache: its disk is asked for as much at
// a time as the file wants, and the less memory that goes through, the more of it stays in the
// processor's cache until it is copied on.
uint64_t LocalMove::MostInSlot(const Bounce& bounce, const Routes& routes) const {
  const uint64_t slot_bytes = bounce.slots->slot_bytes();
  const bool reads = source_.span.region->file() != nullptr;
  if (!reads || routes.front()->grain() == 1) return slot_bytes;
  return std::min(slot_bytes, routes.front()->chunk_bytes());
}

// As the file wants it that is one of the ends, if there is one.
pipeline::Cut LocalMove::CutFor(const Routes& routes) const {
  pipeline::Cut cut;
  for (const auto& route : routes) cut.grain = std::max(cut.grain, route->grain());
  const bool reads = source_.span.region->file() != nullptr;
  cut.phase = (reads ? source_ : destination_).span.offset % cut.grain;
  return cut;
}

void LocalMove::Run(const Routes& routes) {
  for (const auto& route : routes) route->SetFlow(whom_.flow);
  Executor& executor = routes.back()->executor();
  std::string proof;
  for (const auto& route : routes) {
    const std::string one = route->proof();
    if (!one.empty()) proof += (proof.empty() ? "" : "; ") + one;
  }
  const uint64_t bytes = source_.payload();
  const LayoutRef& from = source_.layout;
  const LayoutRef& to = destination_.layout;
  uint64_t chunk = ChunkFor(from.get(), to.get(), routes.front()->chunk_bytes(), kMaxCopies);
  uint32_t together = 1;
  if (bounces_.size() == 1) {
    const Bounce& only = bounces_.front();
    chunk = MostInSlot(only, routes);
    // Of a file many pieces at a time are worth more than large ones.
    if (!OfFile()) {
      together = pipeline::SlotsTogether(
          chunk, std::min(kBounceSlots, only.slots->slots(only.purpose)), bytes);
    }
    chunk *= together;
  } else if (!bounces_.empty()) {
    chunk = std::min(MostInSlot(bounces_.front(), routes), MostInSlot(bounces_.back(), routes));
  }
  const pipeline::Cut cut = from == nullptr && to == nullptr ? CutFor(routes) : pipeline::Cut();
  if (whom_.pace != nullptr) {
    chunk = std::min(chunk, std::max(whom_.pace->piece_bytes(), cut.grain));
  }
  pipeline::Places places;
  places.source =
      std::make_unique<pipeline::SourceRange>(source_.span.offset, bytes, chunk, from, cut);
  for (const Bounce& bounce : bounces_) {
    places.between.push_back(std::make_unique<pipeline::SlotQueue>(bounce.share, together));
  }
  places.destination =
      std::make_unique<pipeline::DestinationRange>(destination_.span.offset, bytes, to);
  std::vector<pipeline::Stage> stages;
  for (size_t i = 0; i < routes.size(); ++i) {
    const unsigned depth = routes[i]->depth();
    const pipeline::Layouts layouts{i == 0 ? from : nullptr, i + 1 == routes.size() ? to : nullptr};
    stages.push_back({std::make_unique<pipeline::CopyMover>(routes[i], executor, layouts), depth});
  }
  chain_ = std::make_shared<pipeline::Chain>(executor, std::move(places), std::move(stages));
  chain_->SetPace(whom_.pace);
  running_();
  chain_->Start([self = self_, proof = std::move(proof)](pipeline::ChainReport report) mutable {
    self->context_.loop.Post([self, proof = std::move(proof), report = std::move(report)] {
      MoveOutcome outcome;
      outcome.began = true;
      if (!proof.empty()) outcome.evidence["one_pass"] = proof;
      for (const Area* end : {&self->source_, &self->destination_}) {
        if (end->span.region->file() != nullptr) self->TellOfFile(*end->span.region, outcome);
      }
      if (!self->path_.placement.empty()) outcome.evidence["placement"] = self->Placement();
      AddReport(report, {}, &outcome);
      self->End(std::move(outcome));
    });
  });
}

// How a file's bytes went, which is not always as it was planned.
void LocalMove::TellOfFile(const Region& end, MoveOutcome& outcome) const {
  const auto& way = end.direct_way();
  const bool by_drive = path_.path == kDirectPath || !path_.via.empty();
  const bool direct = by_drive && way != nullptr && way->file != nullptr;
  outcome.evidence["storage"] = direct ? way->file->how() : end.file()->how();
  if (!direct || !way->file->bounced()) return;
  outcome.taken = kBouncePath;
  outcome.not_taken =
      Refusal{path_.path, std::string(reasons::kCompatibilityMode),
              "the bytes took another way than the library announced: " + way->file->how(),
              "see onecopy doctor, and gdscheck -p"};
}

// As it was planned, and where the slots were seen to lie.
std::string LocalMove::Placement() const {
  if (!path_.via.empty()) return path_.placement;
  std::string seen;
  for (const Bounce& bounce : bounces_) seen = bounce.slots->seen_on();
  return path_.placement + (seen.empty() ? "; the kernel does not report where they lie"
                                         : "; seen to lie on " + seen);
}

void LocalMove::Stop(const Status& why) {
  if (!stopped_.ok()) return;
  stopped_ = why;
  const auto self = shared_from_this();
  // First what says why: a file that is stopped may end the chain with a reason of its own.
  if (chain_ != nullptr) chain_->Stop(why);
  for (const Area* end : {&source_, &destination_}) {
    if (end->span.region == nullptr) continue;  // it has ended
    const auto& way = end->span.region->direct_way();
    if (way != nullptr && way->file != nullptr) way->file->Stop();
  }
  if (chain_ != nullptr) return;
  // Not from here: the caller may be what is told of the end.
  context_.loop.Post([self] { self->Over(); });
}

uint64_t LocalMove::life() const {
  uint64_t life = bytes_done() + LifeOfWaiting(whom_.flow) + LifeOfHeld(chain_);
  for (const Bounce& bounce : bounces_) {
    const bool waits = bounce.share != nullptr && bounce.slots->Waits(*bounce.share);
    if (waits) life += bounce.slots->given(bounce.purpose);
  }
  return life;
}

std::string LocalMove::waits_for() const {
  for (const Bounce& bounce : bounces_) {
    if (bounce.share != nullptr && bounce.slots->Waits(*bounce.share)) {
      return WaitsForSlots(context_.node(), bounce.slots->Ahead(*bounce.share));
    }
  }
  if (chain_ != nullptr) return WaitsForRate(*chain_, *whom_.pace);
  return "memory of node " + context_.node() + " to be made ready";
}

void LocalMove::End(MoveOutcome outcome) {
  const std::shared_ptr<LocalMove> keep = std::exchange(self_, nullptr);
  if (keep == nullptr) return;
  chain_.reset();
  bounces_.clear();
  source_.span.region.reset();
  destination_.span.region.reset();
  std::exchange(done_, nullptr)(std::move(outcome));
}

}  // namespace onecopy::engine
