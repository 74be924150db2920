// Several nodes for tests of broadcasts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "onecopy/broadcast.h"
#include "onecopy/client.h"
#include "tests/support/node.h"

namespace onecopy::testing {

// Nodes "n0", "n1" and so on, all connected to each other, with a client of each. Every node has a
// buffer "w" of `bytes` bytes; n0's contains Payload(bytes, 5), the others' contain zeros.
struct BroadcastFleet {
  // `options` returns each node's options, without its peers.
  BroadcastFleet(size_t count, uint64_t bytes, const std::function<NodeOptions(size_t)>& options);

  // From n0 into the next `count` nodes; all of them by default.
  BroadcastRequest Request(std::optional<size_t> count = {}) const;
  static Endpoint End(size_t node);
  // Whether "w" there contains n0's payload.
  bool Has(size_t node) const;

  const uint64_t bytes;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<Client> clients;
  std::optional<HostBuffer> source;
};

}  // namespace onecopy::testing
