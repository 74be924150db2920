// Nodes and memory as most tests of this suite need them.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include <string>

#include "onecopy/client.h"
#include "tests/support/node.h"

namespace onecopy::testing {

// Two nodes that know each other. `config` is both daemons'.
struct Pair {
  explicit Pair(const std::string& config = {});

  Node west;
  Node east;
};

// A pair, and north, which knows both.
struct ThreeNodes {
  ThreeNodes();

  Pair pair;
  Node& east = pair.east;
  Node& west = pair.west;
  Node north{"north", {.peers = {east.AsPeer(), west.AsPeer()}}};
};

// What a Result holds; throws where it holds an error.
template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().ToString());
  return *std::move(result);
}
void Must(const Status& status);

// Memory of this process, registered, each byte as in Payload(bytes, seed).
HostBuffer Filled(Client& client, const std::string& name, uint64_t bytes, uint64_t seed);

// All bytes of a buffer, or of a range, by `onecopy cp BUFFER -`.
std::string Contents(const Node& node, const std::string& endpoint);

// Whether these are the bytes of Payload(…, seed) from `offset` on.
bool IsPayload(const std::byte* data, uint64_t bytes, uint64_t seed, uint64_t offset = 0);

// Waits until bytes of it move.
TransferInfo SeeRunning(Client& client, const TransferId& id);
// Starts it, and returns once bytes move.
TransferInfo StartAndSeeRunning(Client& client, const TransferRequest& request);

// Stops a daemon's threads as a debugger would, until it goes. Whatever goes through that daemon
// stays under way.
class Frozen {
 public:
  explicit Frozen(Node& node);
  ~Frozen() { Thaw(); }
  void Thaw();

 private:
  Node* node_;
};

}  // namespace onecopy::testing
