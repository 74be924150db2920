#include "daemon/engine/rings/remote_route.h"

#include <utility>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/routes.h"
#include "daemon/engine/peering/forgo.h"
#include "daemon/engine/rings/bounce.h"
#include "daemon/engine/rings/ring_end.h"
#include "daemon/pipeline/chained_route.h"
#include "daemon/pipeline/small_pushes.h"
#include "daemon/plan/planner.h"
#include "onecopy/reasons.h"
#include "transport/os/machine/machine.h"
#include "transport/ring/layout.h"

namespace onecopy::engine {
namespace {

// Keeps itself alive through the calls that it waits for.
class Making : public std::enable_shared_from_this<Making> {
 public:
  Making(const RemoteRoutes::Needs& needs, RemoteRouteParams params, Reply<RemoteRoute> reply)
      : needs_(needs),
        explain_(std::move(params.explain)),
        params_(std::move(params)),
        reply_(std::move(reply)) {}

  void Start() {
    needs_.peers.WhenConnected(params_.source.node, [self = shared_from_this()](auto peer) {
      if (!peer.ok()) return self->reply_(peer.status());
      if (self->params_.reservation) return self->Plan(*self->params_.reservation);
      self->Reserve(**peer, true);
    });
  }

 private:
  void Reserve(PeerApi& peer, bool whole) {
    ReserveRequest request;
    request.id = params_.id;
    request.uid = params_.who.uid;
    request.destination_node = needs_.context.node();
    request.source = params_.source;
    if (whole) request.source.offset_bytes = request.source.bytes = std::nullopt;
    peer.Reserve(needs_.context.node(), std::move(request),
                 [self = shared_from_this(), whole](Result<Reservation> reserved) {
                   self->promised_ = reserved.ok();
                   self->whole_ = whole;
                   if (reserved.ok()) return self->Plan(std::move(*reserved));
                   const Result<PeerApi*> peer = self->needs_.peers.Find(self->params_.source.node);
                   const bool less = whole && reserved.status().code() == Code::kPermissionDenied;
                   if (!less || !peer.ok()) return self->Fail(reserved.status());
                   self->Reserve(**peer, false);
                 });
  }

  void Plan(Reservation reserved) {
    reserved_ = std::move(reserved);
    if (!reserved_.source.offset_bytes || !reserved_.source.bytes) {
      return Fail(Status(Code::kInvalidArgument, reasons::kBadArgument,
                         "node " + params_.source.node + " promised a range without its length"));
    }
    if (reserved_.place != nullptr) {
      return Fail(NotByRing("the source is an array with gaps, and rings carry one range"));
    }
    const Result<plan::Request> question = MakeRequest(ring::kMaxBytes);
    if (!question.ok()) return Fail(question.status());
    needs_.probes.Await(params_.source.node, plan::ContendingWires(*question),
                        [self = shared_from_this()] { self->Decide(); });
  }

  Result<plan::Request> MakeRequest(uint64_t bytes) const {
    return needs_.planning.RequestFor(params_.source.node, {reserved_.memory, reserved_.device},
                                      params_.into->place(), bytes);
  }

  void Decide() {
    const Result<plan::Request> question = MakeRequest(ring::kMaxBytes);
    if (!question.ok()) return Fail(question.status());
    Result<plan::Path> plan = plan::MakePlan(*question);
    if (!plan.ok()) return Fail(plan.status());
    const plan::Path& path = *plan;
    const bool in_place = path.link.empty();
    const bool staged = path.source_staged || path.destination_staged;
    if ((in_place && staged) || ((in_place || staged) && !params_.recalled)) {
      return Fail(NotByRing("rings do not carry " + path.path));
    }
    plan_ = path;
    if (in_place) return Borrow();
    if (Bytes() > ring::kMaxBytes) return Fail(TooLong());
    const LinkCapability* link = needs_.catalog.capabilities().FindLink(path.link);
    if (link != nullptr && link->rdma && !path.destination_staged && params_.into->needs_flush()) {
      return Fail(NotByRing("bytes that a network device writes into " + params_.into->step_name() +
                            " must be flushed, which is slow"));
    }
    range_ = std::make_shared<ImportedRange>(needs_.ranges, params_.source.node, path.link);
    if (path.destination_staged) return StageDestination();
    registered_ = params_.into;
    Connect();
  }

  bool staged() const { return plan_.source_staged || plan_.destination_staged; }
  Owner Payer() const {
    const Principal& who = params_.who;
    return PayerAt(needs_.context.node(), who.node, OwnerOf(who));
  }

  void StageDestination() {
    MakeBounce(needs_.context, Payer(), [self = shared_from_this()](Result<RegionRef> made) {
      if (!made.ok()) return self->Fail(made.status());
      self->registered_ = std::move(*made);
      const RegionRef& into = self->params_.into;
      PrepareSmallCopyRoute(
          self->needs_.context, WorkQueue(WorkerOf(into->place()), OwnerOf(self->params_.who)),
          self->registered_, into, [self](Result<std::shared_ptr<SmallCopyRoute>> way) {
            if (!way.ok()) return self->Fail(way.status());
            self->onward_ = std::move(*way);
            self->Connect();
          });
    });
  }

  void Borrow() {
    BorrowedRange::Params params;
    params.node = params_.source.node;
    params.memory = reserved_.memory_id.empty() ? reserved_.source.buffer : reserved_.memory_id;
    params.kind = reserved_.memory;
    params.ticket = reserved_.ticket;
    params.id = params_.id;
    params.range = {*reserved_.source.offset_bytes, *reserved_.source.bytes};
    params.payer = Payer();
    params.recalled = params_.recalled;
    borrowed_ = std::make_shared<BorrowedRange>(needs_.borrowed, std::move(params));
    borrowed_->Borrow([self = shared_from_this()](const Status& borrowed) {
      if (!borrowed.ok()) return self->Fail(borrowed);
      self->ReplyInPlace();
    });
  }

  // What the first transfer moves; 0 where only the node that promised its range knows. A source's
  // buffer that may not be read as a whole has been asked for by its range.
  uint64_t Bytes() const {
    if (params_.reservation) return 0;
    return whole_ ? LengthOf(params_.source, *reserved_.source.bytes) : *reserved_.source.bytes;
  }

  RemoteRoute NewRoute() {
    RemoteRoute made;
    made.plan = std::move(plan_);
    made.source = reserved_.source;
    made.source.node = params_.source.node;
    made.whole = whole_;
    made.bytes = Bytes();
    return made;
  }

  void ReplyInPlace() {
    RemoteRoute made = NewRoute();
    made.borrowed = std::move(borrowed_);
    made.place = {reserved_.memory, reserved_.device};
    const Result<plan::Request> question = MakeRequest(ring::kMaxLongBytes);
    const Result<plan::Path> plan = question.ok() ? plan::MakePlan(*question) : question.status();
    if (plan.ok() && plan->path == made.plan.path) {
      made.long_bytes_per_second = plan->probed_bytes_per_second;
    }
    reply_(std::move(made));
  }

  void Connect() {
    range_->Connect([self = shared_from_this()](const Status& connected) {
      if (!connected.ok()) return self->Fail(connected);
      const bool own = self->plan_.destination_staged;
      self->range_->Register(self->registered_, own ? std::string() : self->params_.client_buffer,
                             {}, self->Payer(), [self](const Status& registered) {
                               if (!registered.ok()) return self->Fail(registered);
                               self->OpenRange();
                             });
    });
  }

  void OpenRange() {
    const std::string& node = params_.source.node;
    const Result<PeerApi*> peer = needs_.peers.Find(node);
    if (!peer.ok()) return Fail(peer.status());
    (*peer)->OpenRange(needs_.context.node(),
                       {.ticket = reserved_.ticket,
                        .id = params_.id,
                        .connection = range_->connection_number(),
                        .sums = staged() ? 0 : sums_channel_,
                        .fills = plan_.source_staged ? fills_channel_ : 0},
                       [self = shared_from_this()](Result<OpenRangeReply> opened) {
                         if (opened.ok()) return self->Opened(std::move(*opened));
                         const Status why = self->range_->Heard(opened.status());
                         const bool lost = why.reason() == reasons::kLinkDown;
                         if (lost && !std::exchange(self->again_, true)) return self->Connect();
                         self->Fail(why);
                       });
  }

  // The right to read that nothing came of is given back, where this node asked for it.
  void Fail(const Status& why) {
    if (promised_) Forgo(needs_.context, needs_.peers.Find(params_.source.node), params_.id, why);
    reply_(why);
  }

  void Opened(OpenRangeReply opened) {
    range_->Opened(std::move(opened.key),
                   std::make_unique<PeerOpening>(needs_.context, needs_.peers, params_.source.node,
                                                 opened.opening));
    promised_ = false;  // used up
    RemoteRoute made = NewRoute();
    made.range = range_;
    made.registered = registered_;
    made.sums_channel = opened.sums && !staged() ? sums_channel_ : 0;
    if (plan_.source_staged && opened.fill_bytes < ring::kMaxBytes) {
      return Fail(Status(Code::kInvalidArgument, reasons::kBadArgument,
                         "node " + params_.source.node + " stages transfers of at most " +
                             std::to_string(opened.fill_bytes) + " bytes"));
    }
    if (plan_.source_staged && opened.fill_steps.size() != 1) {
      return Fail(Status(Code::kInvalidArgument, reasons::kBadArgument,
                         "node " + params_.source.node + " stages by " +
                             std::to_string(opened.fill_steps.size()) + " steps, not by one"));
    }
    for (Step& step : opened.fill_steps) step.node = params_.source.node;  // whatever it says
    if (staged()) made.staged = MakeStaged(std::move(opened));
    registered_.reset();
    range_.reset();
    reply_(std::move(made));
  }

  // One after the other: the source's node copies into its staging memory, this node gets from
  // there, or from the buffer, and copies on from its own staging memory.
  std::shared_ptr<SmallCopyRoute> MakeStaged(OpenRangeReply opened) {
    const Principal& who = params_.who;
    const std::shared_ptr<Connection>& connection = range_->connection();
    const bool fill = plan_.source_staged;
    pipeline::SmallGets::Source source{connection,
                                       os::RandomNumber(),
                                       range_->key(),
                                       needs_.context.flows.Of(OwnerOf(who), who.node),
                                       fill ? 0 : *reserved_.source.offset_bytes,
                                       range_};
    std::shared_ptr<SmallCopyRoute> way = OnEngine(
        needs_.context.loop, std::make_unique<pipeline::SmallGets>(std::move(source), registered_,
                                                                   std::move(explain_), Failed()));
    if (fill) {
      pipeline::SmallPushes::Params fills{
          connection, fills_channel_,
          std::make_shared<const std::vector<Step>>(std::move(opened.fill_steps)), range_};
      way = std::make_shared<pipeline::ChainedRoute>(
          OnEngine(needs_.context.loop,
                   std::make_unique<pipeline::SmallPushes>(std::move(fills), Failed())),
          std::move(way), std::min(opened.fill_bytes, kBounceBytes), Failed());
    }
    if (onward_ == nullptr) return way;
    return std::make_shared<pipeline::ChainedRoute>(std::move(way), std::move(onward_),
                                                    kBounceBytes, Failed());
  }
  UniqueFunction<void(const Status&)> Failed() const {
    return [&loop = needs_.context.loop, recalled = params_.recalled](const Status& why) {
      loop.Post([recalled, why] { recalled(why); });
    };
  }

  const RemoteRoutes::Needs& needs_;
  pipeline::SmallGets::Explain explain_;
  const RemoteRouteParams params_;
  Reply<RemoteRoute> reply_;
  Reservation reserved_;
  bool promised_ = false;  // to this node, by the source's
  bool whole_ = false;     // it is all of the source's buffer
  plan::Path plan_;
  std::shared_ptr<ImportedRange> range_;
  RegionRef registered_;                    // where its gets write
  std::shared_ptr<SmallCopyRoute> onward_;  // from there, if the destination is staged
  std::shared_ptr<BorrowedRange> borrowed_;
  bool again_ = false;  // the first connection turned out dead
  const uint64_t sums_channel_ = params_.sums ? os::RandomNumber() : 0;
  const uint64_t fills_channel_ = os::RandomNumber();
};

}  // namespace

std::shared_ptr<SmallCopyRoute> OnEngine(os::EventLoop& loop, std::unique_ptr<SmallCopyRoute> way) {
  return {way.release(), [&loop](SmallCopyRoute* last) {
            loop.Post([last = std::unique_ptr<SmallCopyRoute>(last)] {});
          }};
}

Status TooLong() { return NotByRing("rings do not carry such long transfers by this route"); }

Status NotByRing(std::string why) {
  return {Code::kFailedPrecondition, reasons::kNotApplicable, std::move(why)};
}

void RemoteRoutes::Make(RemoteRouteParams params, Reply<RemoteRoute> reply) {
  std::make_shared<Making>(needs_, std::move(params), std::move(reply))->Start();
}

}  // namespace onecopy::engine
