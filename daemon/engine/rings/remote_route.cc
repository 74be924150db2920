#include "daemon/engine/rings/remote_route.h"

#include <utility>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/peering/forgo.h"
#include "daemon/engine/rings/ring_end.h"
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
      : needs_(needs), params_(std::move(params)), reply_(std::move(reply)) {}

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
    if (path.source_staged || path.destination_staged || (in_place && !params_.recalled)) {
      return Fail(NotByRing("rings do not carry " + path.path));
    }
    plan_ = path;
    if (in_place) return Borrow();
    if (Bytes() > ring::kMaxBytes) return Fail(TooLong());
    const LinkCapability* link = needs_.catalog.capabilities().FindLink(path.link);
    if (link != nullptr && link->rdma && params_.into->needs_flush()) {
      return Fail(NotByRing("bytes that a network device writes into " + params_.into->step_name() +
                            " must be flushed, which is slow"));
    }
    range_ = std::make_shared<ImportedRange>(needs_.ranges, params_.source.node, path.link);
    Connect();
  }

  void Borrow() {
    const Principal& who = params_.who;
    BorrowedRange::Params params;
    params.node = params_.source.node;
    params.memory = reserved_.memory_id.empty() ? reserved_.source.buffer : reserved_.memory_id;
    params.kind = reserved_.memory;
    params.ticket = reserved_.ticket;
    params.id = params_.id;
    params.range = {*reserved_.source.offset_bytes, *reserved_.source.bytes};
    params.payer = PayerAt(needs_.context.node(), who.node, OwnerOf(who));
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
      const Principal& who = self->params_.who;
      const Owner payer = PayerAt(self->needs_.context.node(), who.node, OwnerOf(who));
      self->range_->Register(self->params_.into, self->params_.client_buffer, {}, payer,
                             [self](const Status& registered) {
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
                        .sums = sums_channel_},
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
    RemoteRoute made = NewRoute();
    made.range = std::move(range_);
    made.sums_channel = opened.sums ? sums_channel_ : 0;
    reply_(std::move(made));
  }

  const RemoteRoutes::Needs& needs_;
  const RemoteRouteParams params_;
  Reply<RemoteRoute> reply_;
  Reservation reserved_;
  bool promised_ = false;  // to this node, by the source's
  bool whole_ = false;     // it is all of the source's buffer
  plan::Path plan_;
  std::shared_ptr<ImportedRange> range_;
  std::shared_ptr<BorrowedRange> borrowed_;
  bool again_ = false;  // the first connection turned out dead
  const uint64_t sums_channel_ = params_.sums ? os::RandomNumber() : 0;
};

}  // namespace

Status TooLong() { return NotByRing("rings do not carry such long transfers by this route"); }

Status NotByRing(std::string why) {
  return {Code::kFailedPrecondition, reasons::kNotApplicable, std::move(why)};
}

void RemoteRoutes::Make(RemoteRouteParams params, Reply<RemoteRoute> reply) {
  std::make_shared<Making>(needs_, std::move(params), std::move(reply))->Start();
}

}  // namespace onecopy::engine
