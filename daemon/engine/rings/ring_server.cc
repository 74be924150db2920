#include "daemon/engine/rings/ring_server.h"

#include <utility>

#include "daemon/engine/base/routes.h"
#include "daemon/engine/peering/exported_range.h"
#include "daemon/engine/rings/bounce.h"
#include "daemon/engine/rings/place_reader.h"
#include "daemon/engine/rings/ring_end.h"
#include "daemon/engine/rings/ring_shares.h"
#include "daemon/pipeline/awaited_route.h"
#include "daemon/pipeline/get_reader.h"
#include "onecopy/reasons.h"
#include "transport/ring/layout.h"

namespace onecopy::engine {
namespace {

// The link by which messages about copies in place come: daemons of one host have it.
constexpr const char* kMessages = "tcp";

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
  Connections::Serving serving;
  Owner payer;
  Span span;           // what is exported
  ByteRange allowed;   // in the buffer
  uint64_t sums = 0;   // the channel on which checksums are asked for
  uint64_t fills = 0;  // likewise copies into staging memory, which then is what is exported
  std::shared_ptr<SmallCopyRoute> fill;  // from the buffer's memory to there
  uint64_t base = 0;                     // where the buffer begins in its memory
  Reply<OpenRangeReply> reply;
};

struct RingServer::Push {
  OpenPushRequest request;  // its reservation is used up
  Principal who;
  BufferId buffer;
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
  range->serving = std::move(*serving);
  range->payer = WholeNode(caller);
  const ByteRange& place = begun->ticket.place.range;
  range->span = {buffer.region, place.offset, place.bytes};
  range->allowed = {place.offset - buffer.offset, place.bytes};
  range->base = buffer.offset;
  range->sums = request.sums;
  range->fills = request.fills;
  range->reply = std::move(reply);
  if (Status usable = CheckReadInPlace(buffer); !usable.ok()) return Export(range, usable);
  if (range->fills != 0) return Stage(range);
  Ensure(range, buffer.registered ? buffer.name : std::string());
}

void RingServer::Ensure(const std::shared_ptr<Range>& range, const std::string& client_buffer) {
  needs_.registrations.Ensure(range->serving.link, range->span.region, client_buffer, {},
                              range->payer,
                              [this, range](const Status& known) { Export(range, known); });
}

void RingServer::Stage(const std::shared_ptr<Range>& range) {
  MakeBounce(needs_.context, range->payer, [this, range](Result<RegionRef> made) {
    if (!made.ok()) return Export(range, made.status());
    const RegionRef from = std::exchange(range->span, {*made, 0, kBounceBytes}).region;
    PrepareSmallCopyRoute(needs_.context, WorkQueue(WorkerOf(from->place()), range->payer), from,
                          *made, [this, range](Result<std::shared_ptr<SmallCopyRoute>> way) {
                            if (!way.ok()) return Export(range, way.status());
                            range->fill = std::move(*way);
                            Ensure(range, {});
                          });
  });
}

void RingServer::Export(const std::shared_ptr<Range>& range, const Status& registered) {
  const Span span = std::move(range->span);
  const auto fail = [this, range](const Status& why) {
    range->fill.reset();
    needs_.openings.Forget(range->number);
    range->reply(why);
  };
  if (!registered.ok()) return fail(registered);
  auto exported = std::make_shared<ExportedRange>(needs_.context, range->serving.connection);
  exported->Open(span, [this, range, span, fail, exported](Result<RemoteKey> key) {
    if (!key.ok()) return fail(key.status());
    OpenRangeReply answer{range->number, std::move(*key)};
    if (range->fill != nullptr) {
      answer.fill_bytes = span.bytes;
      if (const StepList steps = range->fill->steps()->Get()) answer.fill_steps = *steps;
    }
    const std::shared_ptr<pipeline::SmallServer> fills = FillsOf(*range);
    const std::shared_ptr<pipeline::SumServer> sums = SumsOf(*range, span);
    answer.sums = sums != nullptr;
    const Status ready = needs_.openings.Ready(
        range->number,
        [&loop = needs_.context.loop, exported, sums, fills](const Status& why, Task done) {
          // First the key: a reader whose sums or copies have ended must not be able to read any
          // more.
          exported->Close([&loop, sums, fills, why, done = std::move(done)]() mutable {
            Task ended = [&loop, done = std::move(done)]() mutable { loop.Post(std::move(done)); };
            if (sums != nullptr) return sums->Stop(std::move(ended));
            if (fills != nullptr) return fills->Stop(why, std::move(ended));
            ended();
          });
        });
    if (!ready.ok()) return range->reply(ready);
    range->reply(std::move(answer));
  });
}

std::shared_ptr<pipeline::SmallServer> RingServer::FillsOf(Range& range) const {
  if (range.fill == nullptr) return nullptr;
  const std::shared_ptr<Connection>& connection = range.serving.connection;
  return pipeline::SmallServer::Start(
      {.connection = connection,
       .channel = range.fills,
       .from = range.allowed,
       .to = {0, kBounceBytes},
       .most_bytes = ring::kMaxBytes,
       .reader = std::make_unique<PlaceReader>(PlaceReader::Params{.ring = needs_.ring,
                                                                   .connection = connection,
                                                                   .way = std::move(range.fill),
                                                                   .from_base = range.base,
                                                                   .to_base = 0,
                                                                   .ended = nullptr,
                                                                   .held = nullptr})});
}

std::shared_ptr<pipeline::SumServer> RingServer::SumsOf(const Range& range, const Span& span) {
  const bool direct = range.fills == 0 && pipeline::SummedEnd::Works(*span.region);
  if (range.sums == 0 || !direct) return nullptr;
  return pipeline::SumServer::Start({.connection = range.serving.connection,
                                     .channel = range.sums,
                                     .from = range.allowed,
                                     .most_bytes = ring::kMaxBytes,
                                     .region = span.region,
                                     .base = range.base});
}

void RingServer::OpenPush(const std::string& caller, OpenPushRequest request,
                          Reply<OpenPushReply> reply) {
  const Principal who{request.uid, caller, false, {}};
  if (Status shares = MayGoByRing(needs_.context, OwnerOf(who), caller); !shares.ok()) {
    return reply(std::move(shares));
  }
  Result<RingEnd> end =
      FindRingEnd(needs_.buffers, needs_.grants, who, request.destination, Access::kWrite);
  if (!end.ok()) return reply(end.status());
  const Result<uint64_t> number =
      needs_.openings.Begin({caller, end->buffer->id, end->grant, {}, OwnerOf(who)});
  if (!number.ok()) return reply(number.status());
  auto push = std::make_shared<Push>();
  push->answer.opening = *number;
  push->who = who;
  push->buffer = end->buffer->id;
  push->into = end->buffer->region;
  push->to = end->allowed;
  push->to_base = end->buffer->offset;
  push->answer.destination = {needs_.context.node(), end->buffer->name, end->allowed.offset,
                              end->allowed.bytes};
  push->reply = std::move(reply);
  // Whatever it says of itself: it is read from the node that asks.
  Endpoint source = request.reservation.source;
  source.node = caller;
  RemoteRouteParams remote{.who = who,
                           .source = std::move(source),
                           .into = push->into,
                           .client_buffer = end->client_buffer(),
                           .id = request.id,
                           .reservation = std::move(request.reservation)};
  remote.recalled = [this, opening = *number](const Status& why) {
    needs_.openings.End(opening, why);
  };
  push->request = std::move(request);
  needs_.routes.Make(std::move(remote),
                     [this, push](Result<RemoteRoute> route) { Serve(push, std::move(route)); });
}

void RingServer::Refuse(const std::shared_ptr<Push>& push, const Status& why) {
  push->into.reset();
  needs_.openings.Forget(push->answer.opening);
  push->reply(why);
}

void RingServer::Serve(const std::shared_ptr<Push>& push, Result<RemoteRoute> route) {
  if (!route.ok()) return Refuse(push, route.status());
  push->answer.plan = std::move(route->plan);
  if (route->borrowed != nullptr) return ServeInPlace(push, std::move(*route));
  if (route->staged != nullptr) return ServeStaged(push, std::move(*route));
  ServeGets(push, std::move(*route));
}

void RingServer::ServeGets(const std::shared_ptr<Push>& push, RemoteRoute route) {
  const ImportedRange& range = *route.range;
  push->answer.connection = range.connection_number();
  push->answer.access = range.connection()->Access(range.key(), *push->into);
  push->answer.most_bytes = ring::kMaxBytes;
  push->answer.sums = pipeline::SummedEnd::Works(*push->into);
  const ByteRange from{*route.source.offset_bytes, *route.source.bytes};
  pipeline::SmallServer::Params way{.connection = range.connection(),
                                    .channel = push->request.channel,
                                    .from = from,
                                    .to = push->to,
                                    .most_bytes = ring::kMaxBytes,
                                    .reader = nullptr};
  way.reader = std::make_unique<pipeline::GetReader>(pipeline::GetReader::Params{
      .connection = range.connection(),
      .channel = way.channel,
      .flow = needs_.context.flows.Of(OwnerOf(push->who), push->who.node),
      .key = range.key(),
      .begin = from.offset,
      .into = std::move(push->into),
      .to_base = push->to_base,
      .held = ReleasedOn(needs_.context.loop, std::move(route.range))});
  std::vector<pipeline::SmallServer::Params> ways;
  ways.push_back(std::move(way));
  Answer(push, std::move(ways));
}

void RingServer::ServeStaged(const std::shared_ptr<Push>& push, RemoteRoute route) {
  const std::shared_ptr<Connection>& connection = route.range->connection();
  push->answer.connection = route.range->connection_number();
  push->answer.access = connection->Access(route.range->key(), *route.registered);
  push->answer.most_bytes = ring::kMaxBytes;
  push->answer.staged = true;
  std::vector<pipeline::SmallServer::Params> ways;
  ways.push_back(
      {.connection = connection,
       .channel = push->request.channel,
       .from = {*route.source.offset_bytes, *route.source.bytes},
       .to = push->to,
       .most_bytes = ring::kMaxBytes,
       .reader = std::make_unique<PlaceReader>(PlaceReader::Params{.ring = needs_.ring,
                                                                   .connection = connection,
                                                                   .way = std::move(route.staged),
                                                                   .from_base = 0,
                                                                   .to_base = push->to_base,
                                                                   .ended = nullptr,
                                                                   .held = nullptr})});
  push->into.reset();
  Answer(push, std::move(ways));
}

void RingServer::ServeInPlace(const std::shared_ptr<Push>& push, RemoteRoute route) {
  push->answer.shared = route.borrowed->how();
  auto made = std::make_shared<RemoteRoute>(std::move(route));
  made->range = std::make_shared<ImportedRange>(
      ImportedRange::Needs{needs_.connections, needs_.registrations}, push->who.node, kMessages);
  made->range->Connect([this, push, made](const Status& connected) {
    if (!connected.ok()) return Refuse(push, connected);
    CopyWaysParams params;
    params.owner = OwnerOf(push->who);
    params.from = made->borrowed->region();
    params.to = push->into;
    params.borrowed = made->borrowed;
    params.long_too = made->long_bytes_per_second.has_value();
    PrepareCopyWays(needs_.context, std::move(params), [this, push, made](Result<CopyWays> ways) {
      if (!ways.ok()) return Refuse(push, ways.status());
      Prepared(push, *made, std::move(*ways));
    });
  });
}

std::unique_ptr<pipeline::SmallReader> RingServer::ReaderOf(const Push& push,
                                                            const RemoteRoute& route,
                                                            std::shared_ptr<SmallCopyRoute> way,
                                                            PushEnds::Ended ended) const {
  return std::make_unique<PlaceReader>(
      PlaceReader::Params{.ring = needs_.ring,
                          .connection = route.range->connection(),
                          .way = std::move(way),
                          .from_base = route.borrowed->buffer_offset(),
                          .to_base = push.to_base,
                          .ended = std::move(ended),
                          .held = ReleasedOn(needs_.context.loop, route.range)});
}

void RingServer::Prepared(const std::shared_ptr<Push>& push, const RemoteRoute& route,
                          CopyWays ways) {
  push->answer.connection = route.range->connection_number();
  push->answer.most_bytes = ways.long_way == nullptr ? ring::kMaxBytes : ring::kMaxLongBytes;
  const ByteRange from{*route.source.offset_bytes, *route.source.bytes};
  std::vector<pipeline::SmallServer::Params> servers;
  const auto add = [&](uint64_t channel, uint64_t most_bytes,
                       std::unique_ptr<pipeline::SmallReader> reader) {
    servers.push_back({.connection = route.range->connection(),
                       .channel = channel,
                       .from = from,
                       .to = push->to,
                       .most_bytes = most_bytes,
                       .reader = std::move(reader)});
  };
  add(push->request.channel, ring::kMaxBytes, ReaderOf(*push, route, std::move(ways.way), nullptr));
  if (ways.long_way != nullptr) {
    PushEnds::Ended ended =
        needs_.ends.For({.prefix = push->request.prefix,
                         .owner = OwnerOf(push->who).ToString(),
                         .source = route.source,
                         .destination = push->answer.destination,
                         .into = push->buffer,
                         .way = {.from_node = push->who.node,
                                 .path = push->answer.plan.path,
                                 .link = push->answer.plan.link,
                                 .from = route.place,
                                 .to = push->into->place(),
                                 .probed_bytes_per_second = *route.long_bytes_per_second}});
    add(push->request.long_channel, ring::kMaxLongBytes,
        ReaderOf(*push, route,
                 std::make_shared<pipeline::AwaitedRoute>(std::move(ways.long_way),
                                                          ThreadOf(route.range->connection())),
                 std::move(ended)));
  }
  push->into.reset();
  Answer(push, std::move(servers));
}

void RingServer::Answer(const std::shared_ptr<Push>& push,
                        std::vector<pipeline::SmallServer::Params> ways) {
  std::vector<std::shared_ptr<pipeline::SmallServer>> servers;
  for (pipeline::SmallServer::Params& way : ways) {
    servers.push_back(pipeline::SmallServer::Start(std::move(way)));
  }
  const Status ready = needs_.openings.Ready(
      push->answer.opening,
      [&loop = needs_.context.loop, servers = std::move(servers)](const Status& why, Task done) {
        // The last one to stop says so.
        const std::shared_ptr<void> last(
            nullptr, [&loop, done = std::make_shared<Task>(std::move(done))](void*) {
              loop.Post([done] { (*done)(); });
            });
        for (const auto& server : servers) server->Stop(why, [last] {});
      });
  if (!ready.ok()) return push->reply(ready);
  push->reply(std::move(push->answer));
}

}  // namespace onecopy::engine
