#include "daemon/engine/rings/ring_server.h"

#include <utility>

#include "daemon/engine/peering/exported_range.h"
#include "daemon/engine/rings/ring_end.h"
#include "daemon/pipeline/small_server.h"
#include "onecopy/reasons.h"
#include "transport/ring/layout.h"

namespace onecopy::engine {
namespace {

// Goes on the engine's thread, wherever the last reference does.
std::shared_ptr<void> ReleasedOn(Executor& engine, std::shared_ptr<ImportedRange> range) {
  return {nullptr, [&engine, range = std::move(range)](void*) mutable {
            engine.Post([range = std::move(range)] {});
          }};
}

// Small transfers are read in place; those of gRPC need not be.
Status CheckReadInPlace(const Buffer& buffer) {
  if (buffer.file) {
    return {Code::kInvalidArgument, reasons::kBadArgument,
            "a file cannot be read in place by another node"};
  }
  const Backing* const backing = buffer.region->backing();
  ONECOPY_RETURN_IF_ERROR(buffer.region->CheckUsable());
  if (backing == nullptr || backing->IsFull()) return OkStatus();
  return {Code::kFailedPrecondition, reasons::kHasHoles,
          "part of buffer \"" + buffer.name + "\" was never written"};
}

}  // namespace

struct RingServer::Range {
  uint64_t number = 0;
  std::shared_ptr<Connection> connection;
  Span span;
  Reply<OpenRangeReply> reply;
};

struct RingServer::Push {
  uint64_t channel = 0;
  RegionRef into;
  ByteRange to;
  uint64_t to_base = 0;
  OpenPushReply answer;
  Reply<OpenPushReply> reply;
};

Result<RingServer::Begun> RingServer::Begin(const std::string& caller,
                                            const OpenRangeRequest& request) {
  ONECOPY_ASSIGN_OR_RETURN(Ticket ticket, needs_.tickets.Take(caller, request.ticket, request.id));
  if (ticket.place.layout != nullptr) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  "small transfers cannot use several ranges");
  }
  ONECOPY_ASSIGN_OR_RETURN(
      const uint64_t number,
      needs_.openings.Begin({caller, ticket.buffer, ticket.grant, request.id}));
  return Begun{std::move(ticket), number};
}

void RingServer::OpenInPlace(const std::string& caller, const OpenRangeRequest& request,
                             Reply<OpenRangeReply> reply) {
  const Result<Ticket> seen = needs_.tickets.Look(caller, request.ticket, request.id);
  if (!seen.ok()) return reply(seen.status());
  const BufferId memory = seen->memory;
  if (Status lent = needs_.exporter.Check(caller, memory, request.loan); !lent.ok()) {
    return reply(lent);
  }
  const Result<Begun> begun = Begin(caller, request);
  if (!begun.ok()) return reply(begun.status());
  if (Status usable = CheckReadInPlace(*needs_.buffers.FindById(begun->ticket.buffer));
      !usable.ok()) {
    needs_.openings.Forget(begun->number);
    return reply(usable);
  }
  const Status ready = needs_.openings.Ready(
      begun->number, [this, caller, memory, id = request.id](const Status&, Task done) {
        needs_.exporter.Recall(caller, memory, id, std::move(done));
      });
  if (!ready.ok()) return reply(ready);
  reply(OpenRangeReply{begun->number, {}, begun->ticket.place.range});
}

void RingServer::OpenRange(const std::string& caller, const OpenRangeRequest& request,
                           Reply<OpenRangeReply> reply) {
  if (request.loan != 0) return OpenInPlace(caller, request, std::move(reply));
  Result<Connections::Serving> serving =
      needs_.connections.FindAccepted(caller, request.connection);
  if (!serving.ok()) return reply(serving.status());
  const Result<Begun> begun = Begin(caller, request);
  if (!begun.ok()) return reply(begun.status());
  const Buffer& buffer = *needs_.buffers.FindById(begun->ticket.buffer);
  auto range = std::make_shared<Range>();
  range->number = begun->number;
  range->connection = serving->connection;
  const ByteRange& place = begun->ticket.place.range;
  range->span = {buffer.region, place.offset, place.bytes};
  range->reply = std::move(reply);
  if (Status usable = CheckReadInPlace(buffer); !usable.ok()) return Export(range, usable);
  needs_.registrations.Ensure(
      serving->link, buffer.region, buffer.registered ? buffer.name : std::string(), {},
      WholeNode(caller), [this, range](const Status& known) { Export(range, known); });
}

void RingServer::Export(const std::shared_ptr<Range>& range, const Status& registered) {
  const Span span = std::move(range->span);
  const auto fail = [this, range](const Status& why) {
    needs_.openings.Forget(range->number);
    range->reply(why);
  };
  if (!registered.ok()) return fail(registered);
  auto exported = std::make_shared<ExportedRange>(needs_.context, range->connection);
  exported->Open(span, [this, range, fail, exported](Result<RemoteKey> key) {
    if (!key.ok()) return fail(key.status());
    const Status ready = needs_.openings.Ready(
        range->number, [exported](const Status&, Task done) { exported->Close(std::move(done)); });
    if (!ready.ok()) return range->reply(ready);
    range->reply(OpenRangeReply{range->number, std::move(*key)});
  });
}

void RingServer::OpenPush(const std::string& caller, OpenPushRequest request,
                          Reply<OpenPushReply> reply) {
  const Principal who{request.uid, caller, false, {}};
  Result<RingEnd> end =
      FindRingEnd(needs_.buffers, needs_.grants, who, request.destination, Access::kWrite);
  if (!end.ok()) return reply(end.status());
  const Result<uint64_t> number = needs_.openings.Begin({caller, end->buffer->id, end->grant, {}});
  if (!number.ok()) return reply(number.status());
  auto push = std::make_shared<Push>();
  push->answer.opening = *number;
  push->channel = request.channel;
  push->into = end->buffer->region;
  push->to = end->allowed;
  push->to_base = end->buffer->offset;
  push->answer.destination = {needs_.context.node(), end->buffer->name, end->allowed.offset,
                              end->allowed.bytes};
  push->reply = std::move(reply);
  // Whatever it says of itself: it is read from the node that asks.
  Endpoint source = request.reservation.source;
  source.node = caller;
  needs_.routes.Make({who, std::move(source), push->into, end->client_buffer(), request.id,
                      std::move(request.reservation)},
                     [this, push](Result<RemoteRoute> route) { Serve(push, std::move(route)); });
}

void RingServer::Serve(const std::shared_ptr<Push>& push, Result<RemoteRoute> route) {
  if (!route.ok()) {
    push->into.reset();
    needs_.openings.Forget(push->answer.opening);
    return push->reply(route.status());
  }
  os::EventLoop& loop = needs_.context.loop;
  const ImportedRange& range = *route->range;
  push->answer.connection = range.connection_number();
  push->answer.plan = std::move(route->plan);
  push->answer.access = range.connection()->Access(range.key(), *push->into);
  pipeline::SmallServer::Params way{.connection = range.connection(),
                                    .channel = push->channel,
                                    .key = range.key(),
                                    .from = {*route->source.offset_bytes, *route->source.bytes},
                                    .into = std::move(push->into),
                                    .to = push->to,
                                    .most_bytes = ring::kMaxBytes,
                                    .held = ReleasedOn(loop, std::move(route->range)),
                                    .to_base = push->to_base};
  const Status ready = needs_.openings.Ready(
      push->answer.opening,
      [&loop, server = pipeline::SmallServer::Start(std::move(way))](const Status& why, Task done) {
        server->Stop(why,
                     [&loop, done = std::move(done)]() mutable { loop.Post(std::move(done)); });
      });
  if (!ready.ok()) return push->reply(ready);
  push->reply(std::move(push->answer));
}

}  // namespace onecopy::engine
