#include "daemon/engine/remote_route.h"

#include <utility>

#include "daemon/engine/catalog.h"
#include "daemon/engine/context.h"
#include "daemon/engine/peer_api.h"
#include "daemon/engine/peers.h"
#include "daemon/engine/probes.h"
#include "daemon/plan/planner.h"
#include "transport/core/reasons.h"
#include "transport/ring/layout.h"

namespace onecopy::engine {
namespace {

// Keeps itself alive through the calls that it waits for.
class Making : public std::enable_shared_from_this<Making> {
 public:
  Making(Parts& parts, RemoteRouteOrder order, Reply<RemoteRoute> reply)
      : parts_(parts), order_(std::move(order)), reply_(std::move(reply)) {}

  void Start() {
    parts_.peers.WhenConnected(order_.source.node, [self = shared_from_this()](auto peer) {
      if (!peer.ok()) return self->reply_(peer.status());
      if (self->order_.reservation) return self->Plan(*self->order_.reservation);
      self->Reserve(**peer, true);
    });
  }

 private:
  void Reserve(PeerApi& peer, bool whole) {
    ReserveRequest request;
    request.id = order_.id;
    request.uid = order_.who.uid;
    request.destination_node = parts_.context.node();
    request.source = order_.source;
    if (whole) request.source.offset = request.source.bytes = std::nullopt;
    peer.Reserve(parts_.context.node(), std::move(request),
                 [self = shared_from_this(), whole](Result<Reservation> reserved) {
                   if (reserved.ok()) return self->Plan(std::move(*reserved));
                   const Result<PeerApi*> peer = self->parts_.peers.Find(self->order_.source.node);
                   const bool less = whole && reserved.status().code() == Code::kPermissionDenied;
                   if (!less || !peer.ok()) return self->reply_(reserved.status());
                   self->Reserve(**peer, false);
                 });
  }

  void Plan(Reservation reserved) {
    reserved_ = std::move(reserved);
    if (!reserved_.source.offset || !reserved_.source.bytes) {
      return reply_(Status(Code::kInvalidArgument, reasons::kBadArgument,
                           "node " + order_.source.node + " promised a range without its length"));
    }
    const Result<plan::Request> question = Question();
    if (!question.ok()) return reply_(question.status());
    parts_.probes.Await(order_.source.node, plan::ContendingWires(*question),
                        [self = shared_from_this()] { self->Decide(); });
  }

  Result<plan::Request> Question() const {
    const NodeCapability* there = parts_.peers.Capabilities(order_.source.node);
    if (there == nullptr) {
      return Status(Code::kUnavailable, reasons::kPeerDown,
                    "node " + order_.source.node + " does not answer");
    }
    const Place& into = order_.into->place();
    plan::Request request;
    request.source = {there, reserved_.memory, reserved_.device};
    request.destination = {&parts_.catalog.capabilities(), into.kind, into.device};
    request.bytes = ring::kMaxBytes;
    request.estimates = parts_.probes.EstimatesFor(there->node);
    return request;
  }

  void Decide() {
    const Result<plan::Request> question = Question();
    if (!question.ok()) return reply_(question.status());
    Result<plan::Plan> plan = plan::MakePlan(*question);
    if (!plan.ok()) return reply_(plan.status());
    const plan::Path& path = plan->path;
    if (path.source_staged || path.destination_staged || path.link.empty()) {
      return reply_(NotByRing("rings do not carry " + path.name));
    }
    const LinkCapability* link = parts_.catalog.capabilities().FindLink(path.link);
    if (link != nullptr && link->rdma && order_.into->needs_flush()) {
      return reply_(NotByRing("bytes that a network device writes into " +
                              order_.into->step_name() + " must be flushed, which takes long"));
    }
    HeldRange::Order order{order_.source.node, path.link,   reserved_.ticket,
                           order_.id,          order_.into, order_.client_buffer};
    HeldRange::Open(
        parts_, std::move(order),
        [self = shared_from_this(), plan = std::move(*plan)](auto range) mutable {
          if (!range.ok()) return self->reply_(range.status());
          Endpoint source = self->reserved_.source;
          source.node = self->order_.source.node;
          self->reply_(RemoteRoute{std::move(plan), std::move(source), std::move(*range)});
        });
  }

  Parts& parts_;
  const RemoteRouteOrder order_;
  Reply<RemoteRoute> reply_;
  Reservation reserved_;
};

}  // namespace

Status NotByRing(std::string why) {
  return {Code::kFailedPrecondition, reasons::kNotApplicable, std::move(why)};
}

void MakeRemoteRoute(Parts& parts, RemoteRouteOrder order, Reply<RemoteRoute> reply) {
  std::make_shared<Making>(parts, std::move(order), std::move(reply))->Start();
}

}  // namespace onecopy::engine
