// Opens ranges of this node's buffers for small transfers to other nodes, and from them.
#pragma once

#include <string>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/parts.h"

namespace onecopy::engine {

// Engine thread. See PeerApi for both; what they open is closed by CloseOpening.
void OpenRange(Parts& parts, const std::string& caller, const OpenRangeRequest& request,
               Reply<OpenRangeReply> reply);
void OpenPush(Parts& parts, const std::string& caller, OpenPushRequest request,
              Reply<OpenPushReply> reply);

}  // namespace onecopy::engine
