#include "daemon/engine/held_range.h"

#include "daemon/engine/context.h"
#include "daemon/engine/peer_api.h"
#include "daemon/engine/peers.h"
#include "daemon/engine/registrations.h"

namespace onecopy::engine {

void HeldRange::Open(Parts& parts, Order order, Reply<std::shared_ptr<HeldRange>> reply) {
  struct Opening {
    Order order;
    Reply<std::shared_ptr<HeldRange>> reply;
    std::shared_ptr<HeldRange> range;
  };
  auto opening = std::make_shared<Opening>();
  opening->order = std::move(order);
  opening->reply = std::move(reply);
  auto ask = [&parts, opening](const Status& known) {
    if (!known.ok()) return opening->reply(known);
    const Result<PeerApi*> peer = parts.peers.Find(opening->order.node);
    if (!peer.ok()) return opening->reply(peer.status());
    (*peer)->OpenRange(parts.context.node(),
                       {opening->order.ticket, opening->order.id, opening->range->use().number},
                       [&parts, opening](Result<OpenRangeReply> opened) {
                         if (!opened.ok()) return opening->reply(opened.status());
                         opening->range->opening_.emplace(parts, opening->order.node,
                                                          opened->opening);
                         opening->range->key_ = std::move(opened->key);
                         opening->reply(std::move(opening->range));
                       });
  };
  parts.connections.Get(
      opening->order.node, opening->order.link,
      [&parts, opening, ask = std::move(ask)](Result<Connections::Use> use) mutable {
        if (!use.ok()) return opening->reply(use.status());
        opening->range = std::make_shared<HeldRange>(std::move(*use));
        parts.registrations.Ensure(opening->order.link, opening->order.into,
                                   opening->order.client_buffer, std::move(ask));
      });
}

}  // namespace onecopy::engine
