// The ways into a gRPC server for connections that are accepted by ourselves.
#pragma once

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/engine/base/ledger.h"
#include "onecopy/result.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::rpc {

// gRPC does not say by which connection a call came, and of a Unix socket nothing but that it is
// one. So each who connects has a door of their own into the server, and calls say by which door
// they came. Made before the server is built, used on the listener's thread.
class Doors {
 public:
  // One door for everybody.
  static std::unique_ptr<Doors> One(grpc::ServerBuilder& builder,
                                    std::shared_ptr<grpc::ServerCredentials> credentials);
  // For Unix sockets without encryption: `count` doors, of which those who are named in `always`
  // have one each for good; the others are charged to whoever pays for who has them.
  static std::unique_ptr<Doors> ForEach(grpc::ServerBuilder& builder, engine::Ledger ledger,
                                        size_t count, const std::vector<std::string>& always);
  ~Doors();

  // The door for a connection of `who`, until they Leave. RESOURCE_EXHAUSTED (QUOTA) where the
  // payer has too many, or others have them all. A door is not given to others before it has been
  // unused for a while, so that nothing of an ended connection that gRPC may still have in hand is
  // taken for theirs.
  Result<grpc::experimental::ExternalConnectionAcceptor*> Enter(const std::string& who,
                                                                const engine::Owner& payer,
                                                                os::Clock::time_point now);
  void Leave(const std::string& who, os::Clock::time_point now);

 private:
  class Doorkeeper;
  struct Door {
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
    std::shared_ptr<Doorkeeper> keeper;  // null for the only door
    std::string who;                     // empty: it has been nobody's yet
    bool always = false;
    size_t connections = 0;
    os::Clock::time_point unused_since{};
    engine::Ledger::Charge charge;
  };

  explicit Doors(engine::Ledger ledger) : ledger_(std::move(ledger)) {}
  Door* Find(const std::string& who);
  Door* FindFree(os::Clock::time_point now);

  const engine::Ledger ledger_;
  std::vector<Door> doors_;
};

// Who made this call, as they Entered; empty where there is but one door.
std::string WhoCalls(const grpc::ServerContext& context);

}  // namespace onecopy::rpc
