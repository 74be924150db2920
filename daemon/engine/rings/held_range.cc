#include "daemon/engine/rings/held_range.h"

#include <utility>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/staging/registrations.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {

struct HeldRange::Opening {
  Order order;
  Reply<std::shared_ptr<HeldRange>> reply;
  std::shared_ptr<HeldRange> range;
  bool again = false;  // the first connection turned out dead
};

void HeldRange::Open(Parts& parts, Order order, Reply<std::shared_ptr<HeldRange>> reply) {
  auto opening = std::make_shared<Opening>();
  opening->order = std::move(order);
  opening->reply = std::move(reply);
  Connect(parts, opening);
}

void HeldRange::Connect(Parts& parts, const std::shared_ptr<Opening>& opening) {
  parts.connections.Get(opening->order.node, opening->order.link,
                        [&parts, opening](Result<Connections::Use> use) mutable {
                          if (!use.ok()) return opening->reply(use.status());
                          opening->range = std::make_shared<HeldRange>(std::move(*use));
                          parts.registrations.Ensure(opening->order.link, opening->order.into,
                                                     opening->order.client_buffer, {},
                                                     [&parts, opening](const Status& known) {
                                                       if (!known.ok())
                                                         return opening->reply(known);
                                                       Ask(parts, opening);
                                                     });
                        });
}

void HeldRange::Ask(Parts& parts, const std::shared_ptr<Opening>& opening) {
  const Result<PeerApi*> peer = parts.peers.Find(opening->order.node);
  if (!peer.ok()) return opening->reply(peer.status());
  (*peer)->OpenRange(
      parts.context.node(),
      {opening->order.ticket, opening->order.id, opening->range->use().number},
      [&parts, opening](Result<OpenRangeReply> opened) {
        if (!opened.ok()) {
          const Status why = parts.connections.Heard(opening->range->use(), opened.status());
          const bool lost = why.reason() == reasons::kLinkDown;
          if (lost && !std::exchange(opening->again, true)) return Connect(parts, opening);
          return opening->reply(why);
        }
        opening->range->opening_.emplace(parts, opening->order.node, opened->opening);
        opening->range->key_ = std::move(opened->key);
        opening->reply(std::move(opening->range));
      });
}

}  // namespace onecopy::engine
