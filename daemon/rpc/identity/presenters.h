// Whose a call of a client is: what its connection proves.
#pragma once

#include <grpcpp/server_context.h>

#include <functional>
#include <memory>
#include <string>

#include "daemon/engine/registry/sessions.h"
#include "onecopy/result.h"

namespace onecopy::rpc {

// The thread of one server, unless it says otherwise.
class Presenters {
 public:
  virtual ~Presenters() = default;

  // Who presents the token that a call carries, as ClientIdentity::presenter. UNAUTHENTICATED where
  // the connection proves nothing, or nothing any more.
  virtual Result<std::string> Presenter(const grpc::ServerContext& context) = 0;

  // Who pays for a call until it is known of which session it is.
  struct Payer {
    engine::Owner owner;
    bool administrator = false;
  };
  virtual Payer PayerOf(const grpc::ServerContext& context) = 0;

  // Who a session is that is opened over the call's connection; without a program.
  virtual Result<engine::ClientIdentity> Identity(const grpc::ServerContext& context) = 0;

  // Where what the connection proves may end before it does: `ended` runs once when it has, on any
  // thread, for as long as what this returns is kept. Null: it never does.
  virtual std::shared_ptr<void> WhenUnproven(const grpc::ServerContext& context,
                                             std::function<void(const Status& why)> ended) = 0;
};

// The session that a call names, who presents it, and who pays for the call.
struct Presented {
  std::string token;  // of a session
  std::string by;     // as Presenters::Presenter
  Presenters::Payer payer;
};

// The thread of the server. UNAUTHENTICATED if the connection proves nothing, or the call has no
// token.
Result<Presented> PresentedBy(Presenters& presenters, const grpc::ServerContext& context);

}  // namespace onecopy::rpc
