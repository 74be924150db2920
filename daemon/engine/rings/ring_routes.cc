#include "daemon/engine/rings/ring_routes.h"

#include <utility>

#include "daemon/engine/base/names.h"
#include "daemon/engine/peering/forgo.h"
#include "daemon/engine/peering/peer_opening.h"
#include "daemon/engine/rings/copy_ways.h"
#include "daemon/engine/rings/ring_end.h"
#include "daemon/engine/rings/ring_shares.h"
#include "daemon/pipeline/awaited_route.h"
#include "daemon/pipeline/small_pushes.h"
#include "daemon/pipeline/summed_route.h"
#include "daemon/plan/planner.h"
#include "onecopy/reasons.h"
#include "transport/os/machine/machine.h"

namespace onecopy::engine {
namespace {

RouteRecord NewRecord(uint64_t serial) {
  RouteRecord record;
  record.route = std::make_shared<ring::Route>();
  record.route->serial = serial;
  return record;
}

}  // namespace

void RingRoutes::Make(Params params, Reply<Made> reply) {
  const bool from_here = needs_.context.IsSelf(params.source.node);
  const bool to_here = needs_.context.IsSelf(params.destination.node);
  if (to_here) {
    Status shares = MayGoByRing(needs_.context, OwnerOf(params.who), needs_.context.node());
    if (!shares.ok()) return reply(std::move(shares));
  }
  if (from_here && to_here) return MakeInside(params, std::move(reply));
  if (to_here) return MakeFrom(std::move(params), std::move(reply));
  if (from_here) return MakeTo(std::move(params), std::move(reply));
  reply(NotByRing("rings move bytes from or to this node, not between two other nodes"));
}

Result<plan::Path> RingRoutes::MakePlan(const Place& source, const Place& destination,
                                        uint64_t bytes) const {
  ONECOPY_ASSIGN_OR_RETURN(
      const plan::Request request,
      needs_.planning.RequestFor(needs_.context.node(), {source.kind, source.device}, destination,
                                 bytes));
  return plan::MakePlan(request);
}

Result<RingEnd> RingRoutes::FindEnd(const Principal& who, const Endpoint& end,
                                    Access access) const {
  return FindRingEnd(needs_.buffers, needs_.grants, who, end, access);
}

void RingRoutes::MakeInside(const Params& params, Reply<Made> reply) {
  const Result<RingEnd> from = FindEnd(params.who, params.source, Access::kRead);
  if (!from.ok()) return reply(from.status());
  const Result<RingEnd> to = FindEnd(params.who, params.destination, Access::kWrite);
  if (!to.ok()) return reply(to.status());
  const RegionRef from_region = from->buffer->region;
  const RegionRef to_region = to->buffer->region;
  const uint64_t bytes = LengthOf(params.source, from->buffer->bytes);
  Result<plan::Path> plan = MakePlan(from_region->place(), to_region->place(), ring::kMaxBytes);
  if (!plan.ok()) return reply(plan.status());
  if (plan->source_staged || plan->destination_staged || !plan->link.empty()) {
    return reply(NotByRing("rings do not carry " + plan->path));
  }
  RouteRecord record = NewRecord(params.serial);
  ring::Route& route = *record.route;
  route.from = from->allowed;
  route.to = to->allowed;
  route.from_base = from->buffer->offset;
  route.to_base = to->buffer->offset;
  route.one_memory = from_region == to_region;
  record.buffers = {from->buffer->id};
  if (from->buffer != to->buffer) record.buffers.push_back(to->buffer->id);
  for (const RingEnd* end : {&*from, &*to}) {
    if (end->grant) record.grants.push_back(*end->grant);
  }
  const std::string& node = needs_.context.node();
  record.given.source = {node, from->buffer->name, route.from.offset, route.from.bytes};
  record.given.destination = {node, to->buffer->name, route.to.offset, route.to.bytes};
  record.given.plan = std::move(*plan);
  record.from_node = node;
  record.from_place = from_region->place();
  const Result<plan::Path> long_plan =
      MakePlan(from_region->place(), to_region->place(), ring::kMaxLongBytes);
  if (long_plan.ok() && long_plan->path == record.given.plan.path) {
    record.long_bytes_per_second = long_plan->probed_bytes_per_second;
  }
  record.given.source_bytes = from->whole();
  Prepare(params, {from_region, to_region, nullptr, bytes}, std::move(record), std::move(reply));
}

void RingRoutes::Prepare(const Params& params, Ends ends, RouteRecord record, Reply<Made> reply) {
  const uint64_t bytes = ends.bytes;
  const RegionRef from = ends.from;
  const RegionRef to = ends.to;
  const bool long_too = record.long_bytes_per_second.has_value();
  PrepareCopyWays(needs_.context,
                  {OwnerOf(params.who), std::move(ends.from), std::move(ends.to),
                   std::move(ends.borrowed), long_too},
                  [bytes, from, to, record = std::move(record),
                   reply = std::move(reply)](Result<CopyWays> ways) mutable {
                    if (!ways.ok()) return reply(ways.status());
                    if (ways->long_way == nullptr && bytes > ring::kMaxBytes) {
                      return reply(TooLong());
                    }
                    std::shared_ptr<SmallCopyRoute> way = std::move(ways->way);
                    if (pipeline::SummedEnd::Works(*from) && pipeline::SummedEnd::Works(*to)) {
                      way = std::make_shared<pipeline::SummedRoute>(std::move(way), from, to);
                    }
                    reply(Made{std::move(record), std::move(way), std::move(ways->long_way)});
                  });
}

void RingRoutes::MakeFrom(Params params, Reply<Made> reply) {
  const Result<RingEnd> to = FindEnd(params.who, params.destination, Access::kWrite);
  if (!to.ok()) return reply(to.status());
  RouteRecord record = NewRecord(params.serial);
  record.route->to = to->allowed;
  record.route->to_base = to->buffer->offset;
  record.buffers = {to->buffer->id};
  record.peer = params.source.node;
  if (to->grant) record.grants.push_back(*to->grant);
  record.given.destination = {needs_.context.node(), to->buffer->name, to->allowed.offset,
                              to->allowed.bytes};
  const RegionRef into = to->buffer->region;
  RemoteRouteParams remote{.who = params.who,
                           .source = params.source,
                           .into = into,
                           .client_buffer = to->client_buffer(),
                           .id = NewTransferId(),
                           .sums = pipeline::SummedEnd::Works(*into),
                           .recalled = params.failed,
                           .explain = WhyClosed(params.who, params.source)};
  needs_.remote.Make(
      std::move(remote), [this, into, params = std::move(params), record = std::move(record),
                          reply = std::move(reply)](Result<RemoteRoute> made) mutable {
        if (!made.ok()) return reply(made.status());
        ring::Route& route = *record.route;
        route.from = {*made->source.offset_bytes, *made->source.bytes};
        record.given.source = made->source;
        record.given.source_bytes = made->whole ? route.from.bytes : 0;
        record.given.plan = std::move(made->plan);
        if (const auto& borrowed = made->borrowed; borrowed != nullptr) {
          route.from_base = borrowed->buffer_offset();
          record.from_node = record.peer;
          record.from_place = made->place;
          record.long_bytes_per_second = made->long_bytes_per_second;
          record.borrowed = borrowed;
          record.shared = borrowed->how();
          return Prepare(params, {borrowed->region(), into, borrowed, made->bytes},
                         std::move(record), std::move(reply));
        }
        const std::shared_ptr<Connection>& connection = made->range->connection();
        record.access = connection->Access(made->range->key(), *made->registered);
        record.reads_on = connection.get();
        if (made->staged != nullptr) {
          return reply(Made{std::move(record), std::move(made->staged), nullptr});
        }
        const Flow flow = needs_.context.flows.Of(OwnerOf(params.who), params.who.node);
        auto way = std::make_unique<pipeline::SmallGets>(
            pipeline::SmallGets::Source{connection, os::RandomNumber(), made->range->key(), flow,
                                        route.from.offset, made->range, made->sums_channel},
            into, WhyClosed(params.who, params.source), FailureOf(params));
        made->range.reset();
        reply(Made{std::move(record), OnEngine(needs_.context.loop, std::move(way)), nullptr});
      });
}

// The source's half of it is a range that is opened to the other node, as for its own readers.
void RingRoutes::MakeTo(Params params, Reply<Made> reply) {
  const Result<RingEnd> from = FindEnd(params.who, params.source, Access::kRead);
  if (!from.ok()) return reply(from.status());
  const uint64_t bytes = LengthOf(params.source, from->buffer->bytes);
  // Only a device's memory is used in place by another daemon.
  if (bytes > ring::kMaxBytes && from->buffer->region->place().device.empty()) {
    return reply(TooLong());
  }
  RouteRecord record = NewRecord(params.serial);
  record.route->from = from->allowed;
  record.given.source_bytes = from->whole();
  record.buffers = {from->buffer->id};
  record.peer = params.destination.node;
  record.push = NewTransferId();
  if (from->grant) record.grants.push_back(*from->grant);
  const std::string& node = needs_.context.node();
  record.given.source = {node, from->buffer->name, from->allowed.offset, from->allowed.bytes};

  ReserveRequest reserve;
  reserve.id = record.push;
  reserve.uid = params.who.uid;
  reserve.administrator = params.who.administrator;
  reserve.destination_node = record.peer;
  reserve.source = record.given.source;
  Result<Reservation> reservation = needs_.tickets.Reserve(node, reserve);
  if (!reservation.ok()) return reply(reservation.status());
  OpenPushRequest request{record.push,
                          params.who.uid,
                          std::move(*reservation),
                          std::move(params.destination),
                          os::RandomNumber(),
                          os::RandomNumber(),
                          params.prefix};
  const std::string there = record.peer;
  reply = [this, node, push = record.push, reply = std::move(reply)](Result<Made> made) mutable {
    if (!made.ok()) needs_.tickets.Withdraw(node, push);
    reply(std::move(made));
  };
  needs_.peers.WhenConnected(there, [this, params = std::move(params), record = std::move(record),
                                     request = std::move(request), bytes,
                                     reply = std::move(reply)](Result<PeerApi*> peer) mutable {
    if (!peer.ok()) return reply(peer.status());
    const Channels channels{request.channel, request.long_channel};
    (*peer)->OpenPush(
        needs_.context.node(), std::move(request),
        [this, params = std::move(params), channels, bytes, record = std::move(record),
         reply = std::move(reply)](Result<OpenPushReply> opened) mutable {
          if (!opened.ok()) return reply(opened.status());
          Opened(params, channels, bytes, std::move(record), std::move(*opened), std::move(reply));
        });
  });
}

void RingRoutes::Opened(const Params& params, const Channels& channels, uint64_t bytes,
                        RouteRecord record, OpenPushReply opened, Reply<Made> reply) {
  auto held =
      std::make_shared<PeerOpening>(needs_.context, needs_.peers, record.peer, opened.opening);
  const Result<Connections::Serving> serving =
      needs_.connections.FindAccepted(record.peer, opened.connection);
  if (!serving.ok()) {
    return reply(Status(Code::kUnavailable, serving.status().reason(), serving.status().message()));
  }
  const Endpoint& to = opened.destination;
  if (!to.offset_bytes || !to.bytes) {
    return reply(Status(Code::kInvalidArgument, reasons::kBadArgument,
                        "node " + record.peer + " opened a range without its length"));
  }
  if (opened.most_bytes < ring::kMaxBytes) {
    return reply(Status(Code::kInvalidArgument, reasons::kBadArgument,
                        "node " + record.peer + " opened a range for transfers of at most " +
                            std::to_string(opened.most_bytes) + " bytes"));
  }
  const bool long_too = opened.most_bytes > ring::kMaxBytes;
  if (bytes > ring::kMaxBytes && !long_too) return reply(TooLong());
  record.route->to = {*to.offset_bytes, *to.bytes};
  record.connection = opened.connection;
  record.shared = std::move(opened.shared);
  if (opened.staged) record.ends_with = opened.opening;
  record.access = opened.access;
  record.given.destination = to;
  record.given.destination.node = record.peer;
  record.given.plan = std::move(opened.plan);
  auto planned = std::make_shared<const std::vector<Step>>(record.given.plan.steps);
  const auto way = [&](uint64_t channel, bool sums, std::optional<pipeline::SummedEnd> end) {
    return OnEngine(needs_.context.loop,
                    std::make_unique<pipeline::SmallPushes>(
                        pipeline::SmallPushes::Params{serving->connection, channel, planned, held,
                                                      sums, std::move(end)},
                        FailureOf(params)));
  };
  // The buffer may have been removed meanwhile. Then the new route ends at once.
  const Buffer* const source = needs_.buffers.FindById(record.buffers.front());
  std::optional<pipeline::SummedEnd> end;
  if (source != nullptr && pipeline::SummedEnd::Works(*source->region)) {
    end.emplace(source->region, source->offset);
  }
  Made made{std::move(record), way(channels.short_ones, opened.sums, std::move(end)), nullptr};
  if (long_too) {
    made.long_way = std::make_shared<pipeline::AwaitedRoute>(way(channels.long_ones, false, {}),
                                                             ThreadOf(serving->connection));
  }
  reply(std::move(made));
}

// The other node silently closes what it had opened. Asked for the right once more, it says
// why.
pipeline::SmallGets::Explain RingRoutes::WhyClosed(const Principal& who, const Endpoint& source) {
  return [this, &loop = needs_.context.loop, uid = who.uid, source](
             const Status& denied, UniqueFunction<void(Status)> told) mutable {
    loop.Post([this, uid, denied, source = Endpoint(source), told = std::move(told)]() mutable {
      const Result<PeerApi*> peer = needs_.peers.Find(source.node);
      if (!peer.ok()) return told(peer.status());
      ReserveRequest request;
      request.id = NewTransferId();
      request.uid = uid;
      request.destination_node = needs_.context.node();
      request.source = std::move(source);
      (*peer)->Reserve(needs_.context.node(), request,
                       [this, denied, there = request.source.node, id = request.id,
                        told = std::move(told)](const Result<Reservation>& again) mutable {
                         if (!again.ok()) return told(again.status());
                         Forgo(needs_.context, needs_.peers.Find(there), id, denied);
                         told({Code::kUnavailable, reasons::kLinkDown,
                               "the route was closed by its other end and can be opened again: " +
                                   denied.message(),
                               "ask again"});
                       });
    });
  };
}

UniqueFunction<void(const Status&)> RingRoutes::FailureOf(const Params& params) const {
  return [&loop = needs_.context.loop, failed = params.failed](const Status& why) {
    loop.Post([failed, why] { failed(why); });
  };
}

}  // namespace onecopy::engine
