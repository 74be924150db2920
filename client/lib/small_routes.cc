#include "client/lib/small_routes.h"

#include <utility>

namespace onecopy::client {

SmallRoutes::Found SmallRoutes::Find(const SmallPair& asked) {
  const auto found = pairs_.find(asked);
  if (found == pairs_.end()) {
    At(asked);
    return {Known::kFirst, nullptr};
  }
  const Pair& pair = found->second;
  if (pair.route != nullptr) return {Known::kRoute, pair.route};
  const bool refused = pair.none_until != Clock::time_point{} && Clock::now() < pair.none_until;
  return {refused ? Known::kNone : Known::kSecond, nullptr};
}

SmallRoutes::Pair& SmallRoutes::At(const SmallPair& pair) {
  const auto found = pairs_.find(pair);
  if (found != pairs_.end()) return found->second;
  if (pairs_.size() >= kMost) pairs_.clear();
  return pairs_[Key{std::string(pair.source_node), std::string(pair.source),
                    std::string(pair.destination_node), std::string(pair.destination)}];
}

void SmallRoutes::Set(const SmallPair& pair, SmallRouteRef route) {
  At(pair) = {std::move(route), {}};
}

void SmallRoutes::SetNone(const SmallPair& pair) { At(pair) = {nullptr, Clock::now() + kAskAgain}; }

void SmallRoutes::Drop(const SmallRouteRef& route) {
  for (auto& [key, pair] : pairs_) {
    if (pair.route == route) pair = {};
  }
}

}  // namespace onecopy::client
