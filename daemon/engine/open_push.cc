#include <utility>

#include "daemon/engine/context.h"
#include "daemon/engine/open_range.h"
#include "daemon/engine/openings.h"
#include "daemon/engine/remote_route.h"
#include "daemon/engine/ring_end.h"
#include "daemon/pipeline/short_server.h"
#include "transport/core/reasons.h"
#include "transport/ring/layout.h"

namespace onecopy::engine {
namespace {

struct PushOpening {
  uint64_t number = 0;
  uint64_t channel = 0;
  RegionRef into;
  ByteRange to;
  OpenPushReply answer;
  Reply<OpenPushReply> reply;
};
using PushOpeningRef = std::shared_ptr<PushOpening>;

// Goes on the engine's thread, wherever the last reference does.
std::shared_ptr<void> ReleasedOn(Executor& engine, std::shared_ptr<HeldRange> range) {
  return {nullptr, [&engine, range = std::move(range)](void*) mutable {
            engine.Post([range = std::move(range)] {});
          }};
}

void Made(Parts& parts, const PushOpeningRef& opening, Result<RemoteRoute> route) {
  if (!route.ok()) {
    opening->into.reset();
    parts.openings.Forget(opening->number);
    return opening->reply(route.status());
  }
  os::EventLoop& loop = parts.context.loop;
  const HeldRange& range = *route->range;
  opening->answer.connection = range.use().number;
  opening->answer.plan = std::move(route->plan);
  opening->answer.access = range.use().connection->Access(range.key(), *opening->into);
  pipeline::ShortServer::Way way{.connection = range.use().connection,
                                 .channel = opening->channel,
                                 .key = range.key(),
                                 .from = {*route->source.offset, *route->source.bytes},
                                 .into = std::move(opening->into),
                                 .to = opening->to,
                                 .most_bytes = ring::kMaxBytes,
                                 .held = ReleasedOn(loop, std::move(route->range))};
  const Status ready = parts.openings.Ready(
      opening->number,
      [&loop, server = pipeline::ShortServer::Start(std::move(way))](const Status& why, Task done) {
        server->Stop(why,
                     [&loop, done = std::move(done)]() mutable { loop.Post(std::move(done)); });
      });
  if (!ready.ok()) return opening->reply(ready);
  opening->reply(std::move(opening->answer));
}

}  // namespace

void OpenPush(Parts& parts, const std::string& caller, OpenPushRequest request,
              Reply<OpenPushReply> reply) {
  const Principal who{request.uid, caller, false, {}};
  Result<RingEnd> end = FindRingEnd(parts, who, request.destination, Access::kWrite);
  if (!end.ok()) return reply(end.status());
  const Result<uint64_t> number = parts.openings.Begin({caller, end->buffer->id, end->grant, {}});
  if (!number.ok()) return reply(number.status());
  auto opening = std::make_shared<PushOpening>();
  opening->number = opening->answer.opening = *number;
  opening->channel = request.channel;
  opening->into = end->buffer->region;
  opening->to = end->allowed;
  opening->answer.destination = {parts.context.node(), end->buffer->name, end->allowed.offset,
                                 end->allowed.bytes};
  opening->reply = std::move(reply);
  // Whatever it says of itself: it is read from the node that asks.
  Endpoint source = request.reservation.source;
  source.node = caller;
  MakeRemoteRoute(
      parts,
      {who, std::move(source), opening->into, end->client_buffer(), request.id,
       std::move(request.reservation)},
      [&parts, opening](Result<RemoteRoute> route) { Made(parts, opening, std::move(route)); });
}

}  // namespace onecopy::engine
