// Giving a promise back.
#pragma once

#include <string>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/context.h"

namespace onecopy::engine {

// Engine thread. Tells the source's node that a transfer that this node reserved will not begin:
// its tickets would else be kept for minutes, and there is room for so many. A node that is out of
// reach lets them expire.
inline void Forgo(const Context& context, const Result<PeerApi*>& source, const TransferId& id,
                  const Status& why) {
  if (!source.ok()) return;
  (*source)->Finish(context.node(), {id, why}, [](const Result<FinishReply>&) {});
}

}  // namespace onecopy::engine
