// The routes of rings: inside the node, from other nodes, and to them.
#include <algorithm>
#include <utility>

#include "daemon/engine/catalog.h"
#include "daemon/engine/connections.h"
#include "daemon/engine/context.h"
#include "daemon/engine/move.h"
#include "daemon/engine/openings.h"
#include "daemon/engine/peer_opening.h"
#include "daemon/engine/probes.h"
#include "daemon/engine/remote_route.h"
#include "daemon/engine/ring_end.h"
#include "daemon/engine/rings.h"
#include "daemon/engine/tickets.h"
#include "daemon/engine/transfer_ids.h"
#include "daemon/pipeline/short_gets.h"
#include "daemon/pipeline/short_pushes.h"
#include "daemon/plan/planner.h"
#include "transport/core/reasons.h"
#include "transport/os/machine.h"

namespace onecopy::engine {
Result<plan::Plan> Rings::MakePlan(const Place& source, const Place& destination) const {
  const NodeCapability& here = parts_.catalog.capabilities();
  plan::Request request;
  request.source = {&here, source.kind, source.device};
  request.destination = {&here, destination.kind, destination.device};
  request.bytes = ring::kMaxBytes;
  request.estimates = parts_.probes.EstimatesFor(here.node);
  return plan::MakePlan(request);
}

Rings::Description Rings::Describe() {
  Description description;
  description.route = std::make_shared<ring::Route>();
  description.route->serial = next_route_++;
  return description;
}

void Rings::OpenRoute(const SessionId& session, Endpoint source, Endpoint destination,
                      Reply<RingRoute> reply) {
  Result<Principal> who = parts_.sessions.PrincipalOf(session);
  if (!who.ok()) return reply(who.status());
  const auto found = rings_.find(session);
  if (found == rings_.end()) return reply(NotByRing("this session has no ring"));
  const Context& context = parts_.context;
  if (context.draining) {
    return reply(Status(Code::kUnavailable, reasons::kDraining,
                        "node " + context.node() + " is shutting down and takes no new transfers"));
  }
  const RingRef ring = found->second;
  const bool from_here = context.IsSelf(source.node);
  const bool to_here = context.IsSelf(destination.node);
  if (from_here && to_here) return OpenInside(ring, *who, source, destination, std::move(reply));
  if (to_here) return OpenFrom(ring, *who, std::move(source), destination, std::move(reply));
  if (from_here) return OpenTo(ring, *who, source, std::move(destination), std::move(reply));
  reply(NotByRing("rings move bytes from a node or to it, and not between others"));
}

void Rings::OpenInside(const RingRef& ring, const Principal& who, const Endpoint& source,
                       const Endpoint& destination, Reply<RingRoute> reply) {
  const Result<RingEnd> from = FindRingEnd(parts_, who, source, Access::kRead);
  if (!from.ok()) return reply(from.status());
  const Result<RingEnd> to = FindRingEnd(parts_, who, destination, Access::kWrite);
  if (!to.ok()) return reply(to.status());
  const RegionRef from_region = from->buffer->region;
  const RegionRef to_region = to->buffer->region;
  Result<plan::Plan> plan = MakePlan(from_region->place(), to_region->place());
  if (!plan.ok()) return reply(plan.status());
  if (plan->path.source_staged || plan->path.destination_staged || !plan->path.link.empty()) {
    return reply(NotByRing("rings do not carry " + plan->path.name));
  }
  Memory* memory = parts_.context.CopierFor(from_region->place(), to_region->place());
  if (memory == nullptr) return reply(NotByRing("nothing here copies between the two"));

  Description description = Describe();
  ring::Route& route = *description.route;
  route.from = from->allowed;
  route.to = to->allowed;
  route.one_buffer = from->buffer == to->buffer;
  description.buffers = {from->buffer->id};
  if (!route.one_buffer) description.buffers.push_back(to->buffer->id);
  for (const RingEnd* end : {&*from, &*to}) {
    if (end->grant) description.grants.push_back(*end->grant);
  }
  const std::string& node = parts_.context.node();
  description.given.source = {node, from->buffer->name, route.from.offset, route.from.bytes};
  description.given.destination = {node, to->buffer->name, route.to.offset, route.to.bytes};
  description.given.plan = std::move(*plan);
  const std::string worker =
      WorkerOf(from_region->place().device.empty() ? to_region->place() : from_region->place());
  parts_.context.workers.Run<std::unique_ptr<ShortRoute>>(
      worker,
      [memory, from_region, to_region] { return memory->PrepareShort(from_region, to_region); },
      [this, ring, worker, description = std::move(description),
       reply = std::move(reply)](Result<std::unique_ptr<ShortRoute>> way) mutable {
        if (!way.ok()) return reply(way.status());
        Install(ring, std::move(description),
                parts_.context.workers.ShareAny(worker, std::move(*way)), std::move(reply));
      });
}

void Rings::OpenFrom(const RingRef& ring, const Principal& who, Endpoint source,
                     const Endpoint& destination, Reply<RingRoute> reply) {
  const Result<RingEnd> to = FindRingEnd(parts_, who, destination, Access::kWrite);
  if (!to.ok()) return reply(to.status());
  Description description = Describe();
  description.route->to = to->allowed;
  description.buffers = {to->buffer->id};
  description.peer = source.node;
  if (to->grant) description.grants.push_back(*to->grant);
  description.given.destination = {parts_.context.node(), to->buffer->name, to->allowed.offset,
                                   to->allowed.bytes};
  auto explain = WhyClosed(who, source);
  RemoteRouteOrder order{who, std::move(source), to->buffer->region, to->client_buffer(),
                         NewTransferId()};
  const RegionRef into = order.into;
  MakeRemoteRoute(
      parts_, std::move(order),
      [this, ring, into, explain = std::move(explain), description = std::move(description),
       reply = std::move(reply)](Result<RemoteRoute> made) mutable {
        if (!made.ok()) return reply(made.status());
        ring::Route& route = *description.route;
        route.from = {*made->source.offset, *made->source.bytes};
        description.given.source = made->source;
        description.given.plan = std::move(made->plan);
        description.access = made->range->use().connection->Access(made->range->key(), *into);
        const std::shared_ptr<Connection>& connection = made->range->use().connection;
        auto way = std::make_unique<pipeline::ShortGets>(
            pipeline::ShortGets::Source{connection, os::RandomNumber(), made->range->key(),
                                        route.from.offset, made->range},
            into, std::move(explain), FailureOf(ring, route));
        made->range.reset();
        Install(ring, std::move(description), OnEngine(std::move(way)), std::move(reply));
      });
}

// The source's half of it is a range that is opened to the other node, as for its own readers.
void Rings::OpenTo(const RingRef& ring, const Principal& who, const Endpoint& source,
                   Endpoint destination, Reply<RingRoute> reply) {
  const Result<RingEnd> from = FindRingEnd(parts_, who, source, Access::kRead);
  if (!from.ok()) return reply(from.status());
  Description description = Describe();
  description.route->from = from->allowed;
  description.buffers = {from->buffer->id};
  const std::string there = destination.node;
  description.peer = there;
  description.push = NewTransferId();
  if (from->grant) description.grants.push_back(*from->grant);
  const std::string& node = parts_.context.node();
  description.given.source = {node, from->buffer->name, from->allowed.offset, from->allowed.bytes};

  ReserveRequest reserve;
  reserve.id = description.push;
  reserve.uid = who.uid;
  reserve.administrator = who.administrator;
  reserve.destination_node = destination.node;
  reserve.source = description.given.source;
  Result<Reservation> reservation = parts_.tickets.Reserve(node, reserve);
  if (!reservation.ok()) return reply(reservation.status());
  OpenPushRequest request{description.push, who.uid, std::move(*reservation),
                          std::move(destination), os::RandomNumber()};
  parts_.peers.WhenConnected(
      there, [this, ring, description = std::move(description), request = std::move(request),
              reply = std::move(reply)](Result<PeerApi*> peer) mutable {
        if (!peer.ok()) return reply(peer.status());
        const uint64_t channel = request.channel;
        (*peer)->OpenPush(parts_.context.node(), std::move(request),
                          [this, ring, channel, description = std::move(description),
                           reply = std::move(reply)](Result<OpenPushReply> opened) mutable {
                            if (!opened.ok()) return reply(opened.status());
                            Opened(ring, channel, std::move(description), std::move(*opened),
                                   std::move(reply));
                          });
      });
}

void Rings::Opened(const RingRef& ring, uint64_t channel, Description description,
                   OpenPushReply opened, Reply<RingRoute> reply) {
  auto held = std::make_shared<PeerOpening>(parts_, description.peer, opened.opening);
  const Result<Connections::Serving> serving =
      parts_.connections.FindAccepted(description.peer, opened.connection);
  if (!serving.ok()) {
    return reply(Status(Code::kUnavailable, serving.status().reason(), serving.status().message()));
  }
  const Endpoint& to = opened.destination;
  if (!to.offset || !to.bytes) {
    return reply(Status(Code::kInvalidArgument, reasons::kBadArgument,
                        "node " + description.peer + " opened a range without its length"));
  }
  description.route->to = {*to.offset, *to.bytes};
  description.connection = opened.connection;
  description.access = opened.access;
  description.given.destination = to;
  description.given.destination.node = description.peer;
  description.given.plan = std::move(opened.plan);
  auto planned = std::make_shared<const std::vector<Step>>(description.given.plan.path.steps);
  auto way = std::make_unique<pipeline::ShortPushes>(
      pipeline::ShortPushes::Way{serving->connection, channel, std::move(planned), std::move(held)},
      FailureOf(ring, *description.route));
  Install(ring, std::move(description), OnEngine(std::move(way)), std::move(reply));
}

// The other node closes what it had opened without a word. Asked for the right once more, it says
// why.
pipeline::ShortGets::Explain Rings::WhyClosed(const Principal& who, const Endpoint& source) {
  return [this, &loop = parts_.context.loop, uid = who.uid, source](
             const Status& denied, UniqueFunction<void(Status)> told) mutable {
    loop.Post([this, uid, denied, source = Endpoint(source), told = std::move(told)]() mutable {
      const Result<PeerApi*> peer = parts_.peers.Find(source.node);
      if (!peer.ok()) return told(peer.status());
      ReserveRequest request;
      request.id = NewTransferId();
      request.uid = uid;
      request.destination_node = parts_.context.node();
      request.source = std::move(source);
      (*peer)->Reserve(parts_.context.node(), std::move(request),
                       [denied, told = std::move(told)](const Result<Reservation>& again) mutable {
                         if (!again.ok()) return told(again.status());
                         told({Code::kUnavailable, reasons::kLinkDown,
                               "the way was closed by its other end, and may be opened again: " +
                                   denied.message(),
                               "ask again"});
                       });
    });
  };
}

UniqueFunction<void(const Status&)> Rings::FailureOf(const RingRef& ring,
                                                     const ring::Route& route) {
  return [this, &loop = parts_.context.loop, prefix = ring->prefix,
          serial = route.serial](const Status& why) {
    loop.Post([this, prefix, serial, why] { Fail(prefix, serial, why); });
  };
}

// What a way between nodes holds goes on this thread, and before whoever waits for it is told.
std::shared_ptr<ShortRoute> Rings::OnEngine(std::unique_ptr<ShortRoute> way) const {
  return {way.release(), [&loop = parts_.context.loop](ShortRoute* last) {
            loop.Post([last = std::unique_ptr<ShortRoute>(last)] {});
          }};
}

Status Rings::WhatEnded(const Ring& ring, const Description& description) const {
  const auto current = rings_.find(ring.session);
  if (current == rings_.end() || current->second.get() != &ring) {
    return {Code::kAborted, reasons::kOwnerDied, "the client has gone"};
  }
  if (!description.peer.empty() && !parts_.peers.IsConnected(description.peer)) {
    return {Code::kUnavailable, reasons::kPeerDown,
            "node " + description.peer + " does not answer"};
  }
  for (const BufferId id : description.buffers) {
    const Buffer* buffer = parts_.buffers.FindById(id);
    if (buffer == nullptr || !buffer->removing.ok()) {
      return {Code::kNotFound, reasons::kBufferNotFound,
              "a buffer of the route was removed while that was made"};
    }
  }
  for (const GrantId& id : description.grants) {
    if (parts_.grants.Find(id) == nullptr) {
      return {Code::kPermissionDenied, reasons::kNotOwner,
              "a right that the route was to rest on ended while that was made"};
    }
  }
  return OkStatus();
}

void Rings::Install(const RingRef& ring, Description description, std::shared_ptr<ShortRoute> way,
                    Reply<RingRoute> reply) {
  description.steps = way->steps();
  description.route->way = std::move(way);
  if (Status ended = WhatEnded(*ring, description); !ended.ok()) return reply(ended);
  const auto place = std::find(ring->used.begin(), ring->used.end(), false);
  if (place == ring->used.end()) {
    return reply(Status(Code::kResourceExhausted, reasons::kQuota,
                        "a ring has " + std::to_string(ring::kRoutes) + " routes at most"));
  }
  if (Status full = route_quota_.TakeInto(description.charge, ring->owner, ring->administrator);
      !full.ok()) {
    return reply(full);
  }
  *place = true;
  const uint64_t serial = description.route->serial;
  description.place = static_cast<uint32_t>(place - ring->used.begin());
  description.given.word = ring::RouteWord(serial, description.place);
  RingRoute given = description.given;
  thread_.Install(
      ring->id, description.place, description.route,
      [&loop = parts_.context.loop, given = std::move(given), reply = std::move(reply)]() mutable {
        loop.Post([given = std::move(given), reply = std::move(reply)]() mutable {
          reply(std::move(given));
        });
      });
  ring->routes.emplace(serial, std::move(description));
  Forget(*ring);
}

}  // namespace onecopy::engine
