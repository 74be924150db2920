#include "tests/cluster/broadcast_fleet.h"

#include <string>

#include "tests/cluster/pair.h"

namespace onecopy::testing {
namespace {

constexpr uint64_t kSeed = 5;

}  // namespace

BroadcastFleet::BroadcastFleet(size_t count, uint64_t bytes,
                               const std::function<NodeOptions(size_t)>& options)
    : bytes(bytes) {
  for (size_t i = 0; i < count; ++i) {
    NodeOptions own = options(i);
    for (const auto& earlier : nodes) own.peers.push_back(earlier->AsPeer());
    nodes.push_back(std::make_unique<Node>("n" + std::to_string(i), std::move(own)));
  }
  for (const auto& node : nodes) {
    for (const auto& other : nodes) {
      if (other != node) node->WaitForPeer(other->name());
    }
    clients.push_back(node->Connect());
  }
  source.emplace(Filled(clients[0], "w", bytes, kSeed));
  for (size_t i = 1; i < count; ++i) {
    Must(clients[i].CreateBuffer({.name = "w", .bytes = bytes, .memory = "host"}));
  }
}

BroadcastRequest BroadcastFleet::Request(std::optional<size_t> count) const {
  BroadcastRequest request;
  request.source = End(0);
  for (size_t i = 1; i <= count.value_or(nodes.size() - 1); ++i) {
    request.destinations.push_back(End(i));
  }
  return request;
}

Endpoint BroadcastFleet::End(size_t node) { return {"n" + std::to_string(node), "w", {}, {}}; }

bool BroadcastFleet::Has(size_t node) const {
  return Contents(*nodes[node], "w") == Payload(bytes, kSeed);
}

}  // namespace onecopy::testing
