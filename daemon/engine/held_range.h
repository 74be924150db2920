// A range of another node that this one reads again and again: the other side of OpenRanges.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "daemon/engine/connections.h"
#include "daemon/engine/parts.h"
#include "daemon/engine/types.h"

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

  // Connects, makes `into` known to the link's devices, and has the other node open the range.
  static void Open(Parts& parts, Order order, Reply<std::shared_ptr<HeldRange>> reply);

  HeldRange(Parts& parts, std::string node, Connections::Use use)
      : parts_(parts), node_(std::move(node)), use_(std::move(use)) {}
  ~HeldRange();
  HeldRange(const HeldRange&) = delete;
  HeldRange& operator=(const HeldRange&) = delete;

  const std::shared_ptr<Connection>& connection() const { return use_.connection; }
  const RemoteKey& key() const { return key_; }

 private:
  Parts& parts_;
  const std::string node_;
  const Connections::Use use_;
  uint64_t number_ = 0;  // as the other node knows it; 0: it is not open
  RemoteKey key_;
};

}  // namespace onecopy::engine
