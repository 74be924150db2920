// Peers of an EngineCluster: direct calls into the other engine's thread.
#pragma once

#include <memory>
#include <string>

#include "daemon/engine/api/peer_api.h"
#include "transport/core/base/executor.h"

namespace onecopy::testing {

class EngineCluster;

std::unique_ptr<engine::PeerDialer> MakeDirectDialer(EngineCluster& cluster,
                                                     const std::string& node);
// Where answers come back: the engine that dials. Before it starts.
void SetReplyLoop(engine::PeerDialer& dialer, Executor& loop);

}  // namespace onecopy::testing
