// A range of another node that this one reads again and again: what OpenRange gave it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/engine/api/types.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/connections.h"
#include "daemon/engine/peering/peer_opening.h"
#include "daemon/engine/staging/registrations.h"

namespace onecopy::engine {

// Engine thread. Keeps the connection open; the range is given back with it.
class HeldRange {
 public:
  struct Params {
    std::string node;
    std::string link;
    std::string ticket;
    TransferId id;              // that the ticket was made for
    RegionRef into;             // where its bytes will go
    std::string client_buffer;  // the name of that buffer where a client registered it
  };

  struct Needs {
    Context& context;
    Peers& peers;
    Connections& connections;
    Registrations& registrations;
  };

  // Connects, makes `into` known to the link's devices, and has the other node open the range; once
  // more where the connection turns out dead.
  static void Open(const Needs& needs, Params params, Reply<std::shared_ptr<HeldRange>> reply);

  explicit HeldRange(Connections::Use use) : use_(std::move(use)) {}

  const Connections::Use& use() const { return use_; }
  const RemoteKey& key() const { return key_; }

 private:
  struct Opening;
  static void Connect(const std::shared_ptr<Opening>& opening);
  static void Ask(const std::shared_ptr<Opening>& opening);

  const Connections::Use use_;
  RemoteKey key_;
  std::optional<PeerOpening> opening_;
};

}  // namespace onecopy::engine
