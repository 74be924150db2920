#include "client/lib/small_routes.h"

#include <utility>

namespace onecopy::client {

SmallRoutes::Found SmallRoutes::Find(std::string_view source, std::string_view destination) {
  const auto found = pairs_.find(View{source, destination});
  if (found == pairs_.end()) {
    At(source, destination);
    return {Known::kFirst, nullptr};
  }
  const Pair& pair = found->second;
  if (pair.route != nullptr) return {Known::kRoute, pair.route};
  const bool refused = pair.none_until != Clock::time_point{} && Clock::now() < pair.none_until;
  return {refused ? Known::kNone : Known::kSecond, nullptr};
}

SmallRoutes::Pair& SmallRoutes::At(std::string_view source, std::string_view destination) {
  const auto found = pairs_.find(View{source, destination});
  if (found != pairs_.end()) return found->second;
  if (pairs_.size() >= kMost) pairs_.clear();
  return pairs_[Key{std::string(source), std::string(destination)}];
}

void SmallRoutes::Set(std::string_view source, std::string_view destination, SmallRouteRef route) {
  At(source, destination) = {std::move(route), {}};
}

void SmallRoutes::SetNone(std::string_view source, std::string_view destination) {
  At(source, destination) = {nullptr, Clock::now() + kAskAgain};
}

void SmallRoutes::Drop(const SmallRouteRef& route) {
  for (auto& [key, pair] : pairs_) {
    if (pair.route == route) pair = {};
  }
}

}  // namespace onecopy::client
