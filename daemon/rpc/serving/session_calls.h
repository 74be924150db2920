// SessionService: sessions that begin and end with a call.
#pragma once

#include <memory>
#include <string>

#include "daemon/engine/registry/sessions.h"
#include "daemon/rpc/identity/presenters.h"
#include "daemon/rpc/serving/call.h"
#include "onecopy/v1/session.grpc.pb.h"

namespace onecopy::rpc {

struct SessionCalls {
  engine::Turns turns;         // of the engine
  engine::Sessions& sessions;  // used there alone
  engine::Ledger ledger;
  std::shared_ptr<Presenters> presenters;
  std::string node;     // told to clients, as is the version
  std::string version;  // of the daemon's program
};

// Serves OpenSession. A session ends with its stream: then the client has gone or wants no more, or
// the daemon ends, or the client's connection proves nothing any more.
void ServeSessions(Unread<v1::SessionService>& service, const Serving& serving, SessionCalls there);

}  // namespace onecopy::rpc
