// ArrivalService.WatchArrivals: from the engine's watch to a client's stream.
#pragma once

#include <memory>

#include "daemon/engine/api/client_api.h"
#include "daemon/engine/registry/sessions.h"
#include "daemon/rpc/identity/presenters.h"
#include "daemon/rpc/serving/call.h"
#include "onecopy/v1/arrival.pb.h"

namespace onecopy::rpc {

// What lives on the engine's thread, and how it is asked.
struct EngineSide {
  engine::Turns turns;
  engine::ClientApi& api;
  engine::Sessions& sessions;
  engine::Ledger ledger;
  std::shared_ptr<Presenters> presenters;  // the server's thread
};

// Serves one call. The next answer is taken from the engine when the one before is on its way: what
// a client does not read waits where it is counted. Never blocks.
void ServeArrivals(const EngineSide& there, const grpc::ServerContext& context,
                   const v1::WatchArrivalsRequest& request,
                   const std::weak_ptr<Subscriber<v1::WatchArrivalsResponse>>& watcher);

}  // namespace onecopy::rpc
