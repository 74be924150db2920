#include "daemon/engine/rings/held_range.h"

#include <utility>

#include "daemon/engine/api/peer_api.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {

struct HeldRange::Opening {
  Needs needs;
  Params params;
  Reply<std::shared_ptr<HeldRange>> reply;
  std::shared_ptr<HeldRange> range;
  bool again = false;  // the first connection turned out dead
};

void HeldRange::Open(const Needs& needs, Params params, Reply<std::shared_ptr<HeldRange>> reply) {
  Connect(std::make_shared<Opening>(Opening{needs, std::move(params), std::move(reply), nullptr}));
}

void HeldRange::Connect(const std::shared_ptr<Opening>& opening) {
  const Params& params = opening->params;
  opening->needs.connections.Get(
      params.node, params.link, [opening](Result<Connections::Use> use) mutable {
        if (!use.ok()) return opening->reply(use.status());
        opening->range = std::make_shared<HeldRange>(std::move(*use));
        const Params& params = opening->params;
        opening->needs.registrations.Ensure(params.link, params.into, params.client_buffer, {},
                                            [opening](const Status& known) {
                                              if (!known.ok()) return opening->reply(known);
                                              Ask(opening);
                                            });
      });
}

void HeldRange::Ask(const std::shared_ptr<Opening>& opening) {
  const Params& params = opening->params;
  const Needs& needs = opening->needs;
  const Result<PeerApi*> peer = needs.peers.Find(params.node);
  if (!peer.ok()) return opening->reply(peer.status());
  (*peer)->OpenRange(needs.context.node(), {params.ticket, params.id, opening->range->use().number},
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
                                                        opening->params.node, opened->opening);
                       opening->range->key_ = std::move(opened->key);
                       opening->reply(std::move(opening->range));
                     });
}

}  // namespace onecopy::engine
