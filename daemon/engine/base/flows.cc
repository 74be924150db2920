#include "daemon/engine/base/flows.h"

#include <algorithm>
#include <functional>

#include "transport/core/glob.h"

namespace onecopy::engine {
namespace {

// Users or nodes whose texts have one hash would share a turn.
uint64_t NumberOf(const std::string& text) { return std::hash<std::string>()(text); }

}  // namespace

Flow Flows::Of(const Owner& owner, const std::string& initiator) const {
  const Owner payer = PayerOf(owner);
  return {.node = NumberOf(initiator),
          .user = NumberOf(payer.ToString()),
          .node_weight = WeightOfNode(initiator),
          .user_weight = WeightOfUser(payer)};
}

uint32_t Flows::WeightOfUser(const Owner& owner) const {
  uint32_t weight = 0;
  for (const ShareOptions& share : shares_) {
    const bool named =
        std::any_of(share.users.begin(), share.users.end(), [&](const UserPattern& user) {
          return MatchesGlob(user.node, owner.node) && (!user.uid || owner.uid == Uid(*user.uid));
        });
    if (named) weight = std::max(weight, share.weight);
  }
  return weight == 0 ? 1 : weight;
}

uint32_t Flows::WeightOfNode(const std::string& node) const {
  uint32_t weight = 0;
  for (const ShareOptions& share : shares_) {
    const bool named =
        std::any_of(share.nodes.begin(), share.nodes.end(),
                    [&](const std::string& pattern) { return MatchesGlob(pattern, node); });
    if (named) weight = std::max(weight, share.weight);
  }
  return weight == 0 ? 1 : weight;
}

}  // namespace onecopy::engine
