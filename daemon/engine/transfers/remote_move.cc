#include "daemon/engine/transfers/remote_move.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/engine/base/move.h"
#include "daemon/engine/base/routes.h"
#include "daemon/pipeline/remote_places.h"
#include "onecopy/reasons.h"
#include "transport/core/base/mutex.h"
#include "transport/core/contracts/store.h"
#include "transport/os/machine/machine.h"

namespace onecopy::engine {
namespace {

// Of one chunk, where elements are got one by one.
constexpr uint64_t kMaxGets = 1024;
// Of a slot, over sockets: all lanes have work after the first few slots, and end together.
constexpr uint64_t kPieces = 4;
constexpr uint64_t kMinPiece = 256 << 10;

uint64_t ChunkForGets(const pipeline::Layouts& layouts, uint64_t chunk_bytes) {
  for (const LayoutRef& layout : {layouts.from, layouts.to}) {
    const uint64_t element = layout == nullptr ? 0 : layout->least_element();
    if (element != 0 && element < chunk_bytes / kMaxGets) chunk_bytes = element * kMaxGets;
  }
  return chunk_bytes;
}

// What the source says, from the connection's thread to the engine's. A source may never stop
// talking: of each kind one is kept, and there is one task at a time for all.
class Said {
 public:
  // Whether a task is to be posted that takes all.
  bool Take(const pipeline::Message& message) {
    const MutexLock lock(mutex_);
    // It is ready once, and fails once; of its waiting the newest counts.
    const bool newest = std::holds_alternative<pipeline::WaitingMessage>(message);
    const auto [place, is_new] = messages_.try_emplace(message.index(), message);
    if (!is_new && newest) place->second = message;
    return !std::exchange(posted_, true);
  }
  std::vector<pipeline::Message> TakeAll() {
    const MutexLock lock(mutex_);
    posted_ = false;
    std::vector<pipeline::Message> all;
    for (auto& [kind, message] : std::exchange(messages_, {})) all.push_back(std::move(message));
    return all;
  }

 private:
  Mutex mutex_;
  std::map<size_t, pipeline::Message> messages_ ONECOPY_GUARDED_BY(mutex_);  // by kind
  bool posted_ ONECOPY_GUARDED_BY(mutex_) = false;
};

}  // namespace

LayoutRef RemoteMove::Params::source_layout() const {
  if (ranges == nullptr || ranges->source.contiguous()) return nullptr;
  return {ranges, &ranges->source};
}

RemoteMove::RemoteMove(const Needs& needs, Params params, Area destination)
    : needs_(needs),
      params_(std::move(params)),
      destination_(std::move(destination)),
      slots_(needs.slots.For(*destination_.span.region)),
      remote_source_(std::make_shared<RemoteSource>(needs.context, needs.peers, params_.source_node,
                                                    params_.transfer.id, params_.checksum,
                                                    params_.unproven)) {}

bool RemoteMove::Over(const Status& step) {
  if (finishing_) return true;
  if (step.ok() && stopped_.ok()) return false;
  outcome_.status = stopped_.ok() ? step : stopped_;
  FinishSource();
  return true;
}

void RemoteMove::Start(Task running, Done done) {
  self_ = shared_from_this();
  running_ = std::move(running);
  done_ = std::move(done);
  range_ = std::make_shared<ImportedRange>(needs_.ranges, params_.source_node, params_.path.link);
  range_->Connect([self = self_](const Status& connected) {
    if (!self->Over(connected)) self->Connected();
  });
}

void RemoteMove::Connected() {
  outcome_.connected = true;
  phase_ = Phase::kMemory;
  channel_id_ = os::RandomNumber();
  channel_ = std::make_unique<pipeline::Channel>(
      range_->connection(), channel_id_,
      [weak = weak_from_this(), said = std::make_shared<Said>(),
       &loop = needs_.context.loop](const pipeline::Message& message) {
        if (!said->Take(message)) return;
        loop.Post([weak, said] {
          const std::vector<pipeline::Message> all = said->TakeAll();
          const auto self = weak.lock();
          for (const pipeline::Message& one : all) {
            if (self != nullptr) self->OnControl(one);
          }
        });
      });
  lanes_ =
      needs_.planning.ChooseLanes(params_.source_node, WireTaken(), range_->connection()->lanes());
  if (!params_.path.destination_staged) return RegisterTarget();
  slots_->Slab([self = self_](Result<RegionRef> slab) {
    if (!self->Over(slab.status())) self->Prepare(*slab);
  });
}

void RemoteMove::Prepare(const RegionRef& slab) {
  slab_ = slab;
  const RegionRef& to = destination_.span.region;
  PrepareRoute(needs_.context, {WorkerOf(to->place()), params_.payer}, slab, to,
               [self = self_](Result<std::shared_ptr<CopyRoute>> route) {
                 if (self->Over(route.status())) return;
                 self->route_ = std::move(*route);
                 self->RegisterTarget();
               });
}

void RemoteMove::RegisterTarget() {
  if (Over(destination_.span.region->CheckUsable())) return;
  range_->Register(target(), slab_ != nullptr ? std::string() : params_.client_buffer,
                   lanes_.nics_here, params_.payer, [self = self_](const Status& registered) {
                     if (!self->Over(registered)) self->AskSource();
                   });
}

void RemoteMove::AskSource() {
  phase_ = Phase::kSource;
  PrepareRequest request;
  request.ticket = params_.ticket;
  request.id = params_.transfer.id;
  request.connection = range_->connection_number();
  request.channel = channel_id_;
  request.staged = params_.path.source_staged;
  if (request.staged) {
    request.chunk_bytes = std::min(slots_->slot_bytes(), params_.pace->piece_bytes());
  }
  request.deadline = params_.deadline;
  request.transfer = params_.transfer;
  request.series = needs_.series.Find(params_.transfer.part_of);
  request.nics = lanes_.nics_there;
  request.places = true;
  if (request.staged) {
    request.arrived_bytes = params_.arrived;
    request.until_bytes = params_.until;
  }
  remote_source_->Prepare(std::move(request), [self = self_](const Result<PrepareReply>& reply) {
    if (self->range_ == nullptr) return;  // stopped, and ended without waiting for this
    if (self->Over(self->range_->Heard(reply.status()))) return;
    if (self->Over(self->BeginAt(reply->begins_at_bytes))) return;
    self->answered_ = true;
    self->RunIfReady();
  });
}

Status RemoteMove::BeginAt(uint64_t begins_at_bytes) {
  if (!params_.path.source_staged) {
    skip_ = params_.arrived;
    return OkStatus();
  }
  // A source that sends everything again is one that knows no better.
  if (begins_at_bytes != 0 && begins_at_bytes != params_.arrived) {
    return {Code::kUnavailable, reasons::kLinkDown,
            "node " + params_.source_node + " begins at byte " + std::to_string(begins_at_bytes) +
                ", and was asked for what follows byte " + std::to_string(params_.arrived)};
  }
  skip_ = begins_at_bytes;
  return OkStatus();
}

void RemoteMove::OnControl(const pipeline::Message& message) {
  if (finishing_) return;
  if (const auto* ready = std::get_if<pipeline::ReadyMessage>(&message)) {
    if (ready_) return;
    ++heard_;
    ready_ = *ready;
    range_->Opened(std::move(ready_->key));
    waiting_.reset();
    RunIfReady();
  } else if (const auto* waiting = std::get_if<pipeline::WaitingMessage>(&message)) {
    ++heard_;
    waiting_ = *waiting;
    waiting_at_ = bytes_done();
  } else if (const auto* failed = std::get_if<pipeline::FailedMessage>(&message)) {
    if (chain_ != nullptr) return chain_->Stop(failed->status);
    Over(failed->status.WithContext("node " + params_.source_node));
  }
}

void RemoteMove::RunIfReady() {
  if (answered_ && ready_ && chain_ == nullptr && !Over()) Run();
}

std::unique_ptr<pipeline::Source> RemoteMove::SourcePlace(const pipeline::Layouts& gets,
                                                          uint64_t bytes) {
  if (params_.path.source_staged) {
    return std::make_unique<pipeline::RemoteSlots>(*channel_, bytes, ready_->slot_bytes, first_key_,
                                                   skip_);
  }
  const uint64_t chunk_bytes =
      std::min(range_->connection()->chunk_bytes(), params_.pace->piece_bytes());
  const uint64_t most = slab_ != nullptr ? slots_->slot_bytes() : chunk_bytes;
  return std::make_unique<pipeline::SourceRange>(
      0, bytes, ChunkForGets(gets, std::min(most, chunk_bytes)), gets.from, pipeline::Cut{}, skip_);
}

void RemoteMove::OpenShare() {
  Slots::Params params;
  params.purpose = Purpose::kReceive;
  params.owner = params_.transfer.owner;
  params.payer = params_.payer;
  params.payload = end() - skip_;
  params.most = range_->connection()->depth() * 2;
  params.executor = &range_->connection()->executor();
  share_ = slots_->Open(std::move(params));
}

void RemoteMove::Run() {
  Connection& connection = *range_->connection();
  const uint64_t bytes = end();
  const bool staged = params_.path.source_staged;
  const uint64_t slot_bytes = ready_->slot_bytes;
  if (staged && (slot_bytes < kMinChunkBytes || slot_bytes > slots_->slot_bytes())) {
    Over({Code::kUnavailable, reasons::kLinkDown,
          "node " + params_.source_node + " offers slots of " + std::to_string(slot_bytes) +
              " bytes"});
    return;
  }
  std::vector<ExecutedStep> promised;
  for (Step& step : ready_->steps) {
    step.node = params_.source_node;
    promised.push_back({step, 0});
  }
  remote_source_->Promise(std::move(promised));
  const pipeline::Layouts gets{staged ? nullptr : params_.source_layout(),
                               slab_ != nullptr ? nullptr : destination_.layout};
  pipeline::Places places;
  std::vector<pipeline::Stage> stages;
  places.source = SourcePlace(gets, bytes);
  const LinkCapability* link = needs_.catalog.capabilities().FindLink(params_.path.link);
  const bool sockets = staged && link != nullptr && !link->rdma;
  const uint64_t piece =
      sockets ? std::max(slot_bytes / kPieces, kMinPiece) : std::numeric_limits<uint64_t>::max();
  stages.push_back(
      {std::make_unique<pipeline::GetMover>(range_->connection(), channel_id_, range_->key(),
                                            target(), lanes_.rates, params_.flow, gets, piece),
       connection.depth()});
  if (slab_ != nullptr) {
    OpenShare();
    places.between.push_back(std::make_unique<pipeline::SlotQueue>(share_));
    const unsigned depth = route_->depth();
    copies_ = params_.flow;
    copies_.waiting = std::make_shared<std::atomic<int64_t>>(0);
    route_->SetFlow(copies_);
    stages.push_back(
        {std::make_unique<pipeline::CopyMover>(route_, connection.executor(),
                                               pipeline::Layouts{nullptr, destination_.layout}),
         depth});
  }
  places.destination = std::make_unique<pipeline::DestinationRange>(destination_.span.offset, bytes,
                                                                    destination_.layout, skip_);
  chain_ = std::make_shared<pipeline::Chain>(connection.executor(), std::move(places),
                                             std::move(stages));
  chain_->SetPace(params_.pace);
  connection.Evidence([self = self_](auto counters) {
    self->needs_.context.loop.Post([self, counters = std::move(counters)] {
      for (const auto& [name, count] : counters) self->counters_before_[name] = count;
    });
  });
  outcome_.began = true;
  running_();
  chain_->Start([self = self_](pipeline::ChainReport report) {
    self->needs_.context.loop.Post([self, report = std::move(report)] {
      AddReport(report, self->range_->connection()->lanes(), &self->outcome_);
      const auto& file = self->destination_.span.region->file();
      if (file != nullptr) self->outcome_.evidence["storage"] = file->how();
      self->GatherEvidence([self] { self->FlushTarget(); });
    });
  });
}

plan::Wire RemoteMove::WireTaken() const {
  const plan::WireEnd slots{"host", {}};
  const Place& place = destination_.span.region->place();
  return {params_.path.link, params_.path.source_staged ? slots : params_.source_memory,
          params_.path.destination_staged ? slots : plan::WireEnd{place.kind, place.device}};
}

std::vector<LaneBytes> RemoteMove::lanes() const {
  std::vector<LaneBytes> lanes;
  if (range_ == nullptr || !range_->connected()) return lanes;
  for (const LaneInfo& lane : range_->connection()->lanes()) {
    lanes.push_back({lane.device, lane.peer, 0});
  }
  return lanes;
}

void RemoteMove::Stop(const Status& why) {
  if (!stopped_.ok()) return;
  stopped_ = why;
  if (chain_ != nullptr) return chain_->Stop(why);
  // Not from here: the caller may be what is told of the end.
  needs_.context.loop.Post([self = shared_from_this()] {
    if (self->self_ != nullptr) self->Over();
  });
}

void RemoteMove::LoseConnection(const Connection& connection, const Status& why) {
  if (finishing_ || range_ == nullptr || !range_->connected() ||
      range_->connection().get() != &connection)
    return;
  if (chain_ != nullptr) return chain_->Stop(why);
  Over(why);
}

uint64_t RemoteMove::life() const {
  uint64_t life = bytes_done() + heard_ + LifeOfWaiting(copies_) + LifeOfHeld(chain_);
  // What waits for its turn gets on as long as others' gets do.
  const bool waits = params_.flow.waiting != nullptr && *params_.flow.waiting > 0;
  if (waits && range_ != nullptr && range_->connected()) {
    life += range_->connection()->gets_ended();
  }
  if (finishing_ && params_.checksum) {
    // The source may read all of its range for its checksum; how long that may take is the call's.
    life += static_cast<uint64_t>((os::Clock::now() - started_).count());
  } else if (chain_ == nullptr && phase_ != Phase::kSource) {
    // Connecting has its own bounds, and a driver is given more time than a peer.
    const auto passed = os::Clock::now() - started_;
    if (passed < kMemoryPatience * needs_.context.options.stall_timeout) {
      life += static_cast<uint64_t>(passed.count());
    }
  }
  if (share_ != nullptr && slots_->Waits(*share_)) {
    life += slots_->given(Purpose::kReceive);
  }
  return life;
}

std::string RemoteMove::waits_for() const {
  const std::string& source = params_.source_node;
  if (finishing_) {
    return "node " + source +
           (params_.checksum ? " to sum up what it has sent" : " to release the source");
  }
  if (chain_ == nullptr && phase_ == Phase::kConnecting) {
    return "a connection of link " + params_.path.link + " from node " + source;
  }
  if (chain_ == nullptr && phase_ == Phase::kMemory) {
    return "memory of node " + needs_.context.node() + " to be made ready";
  }
  if (share_ != nullptr && slots_->Waits(*share_)) {
    return WaitsForSlots(needs_.context.node(), slots_->Ahead(*share_));
  }
  if (!waiting_ || waiting_at_ != bytes_done()) {
    return chain_ == nullptr ? "node " + source + " to open the source"
                             : WaitsForRate(*chain_, *params_.pace);
  }
  return waiting_->what == pipeline::WaitingMessage::For::kSlots
             ? WaitsForSlots(source, waiting_->ahead)
             : "memory of node " + source + " to be made ready";
}

void RemoteMove::GatherEvidence(UniqueFunction<void()> then) {
  outcome_.access = range_->connection()->Access(
      params_.path.source_staged ? *first_key_ : range_->key(), *target());
  range_->connection()->Evidence([self = self_, then = std::move(then)](auto counters) mutable {
    self->needs_.context.loop.Post(
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
  const LinkCapability* link = needs_.catalog.capabilities().FindLink(params_.path.link);
  const bool needed = outcome_.status.ok() && slab_ == nullptr && link != nullptr && link->rdma &&
                      destination_.span.region->needs_flush();
  if (!needed) return FinishSource();
  needs_.context.workers.Run<bool>(
      {WorkerOf(destination_.span.region->place()), params_.payer},
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
  if (std::exchange(finishing_, true)) return;
  moved_ = bytes_done();
  chain_.reset();
  route_.reset();
  share_.reset();
  slab_.reset();
  channel_.reset();
  if (outcome_.status.ok() && stopped_.ok()) Landed();
  remote_source_->Finish(!stopped_.ok(), end() - skip_, std::move(outcome_),
                         [self = self_](MoveOutcome outcome) {
                           self->outcome_ = std::move(outcome);
                           self->End();
                         });
}

void RemoteMove::End() {
  if (self_ == nullptr) return;
  const std::shared_ptr<RemoteMove> keep = std::exchange(self_, nullptr);
  range_.reset();
  destination_.span.region.reset();
  std::exchange(done_, nullptr)(std::move(outcome_));
}

}  // namespace onecopy::engine
