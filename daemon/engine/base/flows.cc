#include "daemon/engine/base/flows.h"

#include <algorithm>
#include <functional>

#include "transport/core/glob.h"

namespace onecopy::engine {
namespace {

// Users or nodes whose texts have one hash would share a turn.
uint64_t NumberOf(const std::string& text) { return std::hash<std::string>()(text); }

bool IsPattern(const std::string& node) { return node.find_first_of("*?") != std::string::npos; }

// The weight of what is named most particularly, and of several such the largest.
struct Weight {
  int rank = -1;
  uint32_t value = 1;

  void Consider(int by_rank, uint32_t weight) {
    if (by_rank < rank) return;
    value = by_rank == rank ? std::max(value, weight) : weight;
    rank = by_rank;
  }
};

}  // namespace

Flow Flows::Of(const Owner& owner, const std::string& initiator) const {
  const Owner payer = PayerOf(owner);
  return {.node = NumberOf(initiator),
          .user = NumberOf(payer.ToString()),
          .node_weight = WeightOfNode(initiator),
          .user_weight = WeightOfUser(payer),
          .generation = generation_};
}

uint32_t Flows::WeightOfUser(const Owner& owner) const {
  Weight weight;
  for (const ShareOptions& share : shares_) {
    for (const UserPattern& user : share.users) {
      const bool named =
          MatchesGlob(user.node, owner.node) && (!user.uid || owner.uid == Uid(*user.uid));
      if (named) weight.Consider((user.uid ? 2 : 0) + (IsPattern(user.node) ? 0 : 1), share.weight);
    }
  }
  return weight.value;
}

uint32_t Flows::WeightOfNode(const std::string& node) const {
  Weight weight;
  for (const ShareOptions& share : shares_) {
    for (const std::string& pattern : share.nodes) {
      if (MatchesGlob(pattern, node)) weight.Consider(IsPattern(pattern) ? 0 : 1, share.weight);
    }
  }
  return weight.value;
}

}  // namespace onecopy::engine
