#include "daemon/engine/open_range.h"

#include <utility>

#include "daemon/engine/buffers.h"
#include "daemon/engine/connections.h"
#include "daemon/engine/context.h"
#include "daemon/engine/openings.h"
#include "daemon/engine/registrations.h"
#include "daemon/engine/tickets.h"
#include "transport/core/reasons.h"

namespace onecopy::engine {
namespace {

struct RangeOpening {
  uint64_t number = 0;
  std::shared_ptr<Connection> connection;
  Span span;
  Reply<OpenRangeReply> reply;
};
using RangeOpeningRef = std::shared_ptr<RangeOpening>;

void Exposed(Parts& parts, const RangeOpeningRef& opening, Result<RemoteKey> key) {
  opening->span.region.reset();
  if (!key.ok()) {
    parts.openings.Forget(opening->number);
    return opening->reply(key.status());
  }
  const Status ready = parts.openings.Ready(
      opening->number, [&loop = parts.context.loop, connection = opening->connection, key = *key](
                           const Status&, Task done) {
        connection->Withdraw(
            key, [&loop, done = std::move(done)]() mutable { loop.Post(std::move(done)); });
      });
  if (!ready.ok()) return opening->reply(ready);
  opening->reply(OpenRangeReply{opening->number, std::move(*key)});
}

}  // namespace

void OpenRange(Parts& parts, const std::string& caller, const OpenRangeRequest& request,
               Reply<OpenRangeReply> reply) {
  Result<Connections::Serving> serving = parts.connections.FindAccepted(caller, request.connection);
  if (!serving.ok()) return reply(serving.status());
  Result<Ticket> ticket = parts.tickets.Take(caller, request.ticket, request.id);
  if (!ticket.ok()) return reply(ticket.status());
  if (ticket->layout != nullptr) {
    return reply(Status(Code::kInvalidArgument, reasons::kBadArgument,
                        "several ranges are not opened for small transfers"));
  }
  const Result<uint64_t> number =
      parts.openings.Begin({caller, ticket->buffer, ticket->grant, request.id});
  if (!number.ok()) return reply(number.status());
  const Buffer& buffer = *parts.buffers.FindById(ticket->buffer);
  // Small transfers are read in place; those of gRPC need not be.
  const Backing* const backing = buffer.region->backing();
  Status usable = buffer.region->CheckUsable();
  if (usable.ok() && backing != nullptr && !backing->IsFull()) {
    usable = {Code::kFailedPrecondition, reasons::kHasHoles,
              "part of buffer \"" + buffer.name + "\" has never been written"};
  }
  auto opening = std::make_shared<RangeOpening>();
  opening->number = *number;
  opening->connection = serving->connection;
  opening->span = {buffer.region, ticket->range.offset, ticket->range.bytes};
  opening->reply = std::move(reply);
  if (!usable.ok()) return Exposed(parts, opening, usable);
  parts.registrations.Ensure(
      serving->link, buffer.region, buffer.registered ? buffer.name : std::string(), {},
      [&parts, opening](const Status& known) {
        if (!known.ok()) return Exposed(parts, opening, known);
        opening->connection->Expose(opening->span, [&parts, opening](Result<RemoteKey> key) {
          parts.context.loop.Post([&parts, opening, key = std::move(key)]() mutable {
            Exposed(parts, opening, std::move(key));
          });
        });
      });
}

}  // namespace onecopy::engine
