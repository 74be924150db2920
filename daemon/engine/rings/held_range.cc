#include "daemon/engine/rings/held_range.h"

#include <utility>

#include "daemon/engine/api/peer_api.h"
#include "transport/core/reasons.h"

namespace onecopy::engine {

struct HeldRange::Opening {
  Needs needs;
  Order order;
  Reply<std::shared_ptr<HeldRange>> reply;
  std::shared_ptr<HeldRange> range;
  bool again = false;  // the first connection turned out dead
};

void HeldRange::Open(const Needs& needs, Order order, Reply<std::shared_ptr<HeldRange>> reply) {
  Connect(std::make_shared<Opening>(Opening{needs, std::move(order), std::move(reply), nullptr}));
}

void HeldRange::Connect(const std::shared_ptr<Opening>& opening) {
  const Order& order = opening->order;
  opening->needs.connections.Get(
      order.node, order.link, [opening](Result<Connections::Use> use) mutable {
        if (!use.ok()) return opening->reply(use.status());
        opening->range = std::make_shared<HeldRange>(std::move(*use));
        const Order& order = opening->order;
        opening->needs.registrations.Ensure(order.link, order.into, order.client_buffer, {},
                                            [opening](const Status& known) {
                                              if (!known.ok()) return opening->reply(known);
                                              Ask(opening);
                                            });
      });
}

void HeldRange::Ask(const std::shared_ptr<Opening>& opening) {
  const Order& order = opening->order;
  const Needs& needs = opening->needs;
  const Result<PeerApi*> peer = needs.peers.Find(order.node);
  if (!peer.ok()) return opening->reply(peer.status());
  (*peer)->OpenRange(needs.context.node(), {order.ticket, order.id, opening->range->use().number},
                     [opening](Result<OpenRangeReply> opened) {
                       const Needs& needs = opening->needs;
                       if (!opened.ok()) {
                         const Status why =
                             needs.connections.Heard(opening->range->use(), opened.status());
                         const bool lost = why.reason() == reasons::kLinkDown;
                         if (lost && !std::exchange(opening->again, true)) return Connect(opening);
                         return opening->reply(why);
                       }
                       opening->range->opening_.emplace(needs.context, needs.peers,
                                                        opening->order.node, opened->opening);
                       opening->range->key_ = std::move(opened->key);
                       opening->reply(std::move(opening->range));
                     });
}

}  // namespace onecopy::engine
