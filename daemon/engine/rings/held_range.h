// A range of another node that this one reads again and again: what OpenRange gave it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/engine/api/types.h"
#include "daemon/engine/base/parts.h"
#include "daemon/engine/peering/connections.h"
#include "daemon/engine/peering/peer_opening.h"

namespace onecopy::engine {

// Engine thread. Keeps the connection open; the range is given back with it.
class HeldRange {
 public:
  struct Order {
    std::string node;
    std::string link;
    std::string ticket;
    TransferId id;              // that the ticket was made for
    RegionRef into;             // where its bytes will go
    std::string client_buffer;  // the name of that buffer where a client registered it
  };

  // Connects, makes `into` known to the link's devices, and has the other node open the range; once
  // more where the connection turns out dead.
  static void Open(Parts& parts, Order order, Reply<std::shared_ptr<HeldRange>> reply);

  explicit HeldRange(Connections::Use use) : use_(std::move(use)) {}

  const Connections::Use& use() const { return use_; }
  const RemoteKey& key() const { return key_; }

 private:
  struct Opening;
  static void Connect(Parts& parts, const std::shared_ptr<Opening>& opening);
  static void Ask(Parts& parts, const std::shared_ptr<Opening>& opening);

  const Connections::Use use_;
  RemoteKey key_;
  std::optional<PeerOpening> opening_;
};

}  // namespace onecopy::engine
