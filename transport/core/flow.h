// Whose bytes something moves, for the queues where those of several wait.
#pragma once

#include <cstdint>

namespace onecopy {

// Nodes share what there is to share, and the users of a node its part, each according to its
// weight. The numbers only tell one from another. Nothing set: the daemon's own.
struct Flow {
  uint64_t node = 0;
  uint64_t user = 0;  // of that node
  uint32_t node_weight = 1;
  uint32_t user_weight = 1;

  bool SameOwner(const Flow& other) const { return node == other.node && user == other.user; }
};

}  // namespace onecopy
