#include "client/lib/ring/routes.h"

#include <algorithm>
#include <utility>

#include "transport/core/base/glob.h"
#include "transport/ring/layout.h"

namespace onecopy::client {

bool Route::Meets(const Policy& policy) const {
  if (!policy.path_glob.empty() && !MatchesGlob(policy.path_glob, path)) return false;
  if (!policy.link.empty() && policy.link != link) return false;
  if (!policy.at_most_copies) return true;
  const bool emulated =
      std::any_of(steps.begin(), steps.end(), [](const Step& step) { return step.emulated; });
  return steps.size() <= *policy.at_most_copies && (!emulated || policy.allow_emulated);
}

Routes::Found Routes::Find(const BufferPair& asked, uint64_t bytes) {
  const auto found = pairs_.find(asked);
  if (found == pairs_.end()) {
    At(asked);
    return {Known::kFirst, nullptr};
  }
  const Pair& pair = found->second;
  if (pair.route != nullptr) {
    if (bytes > pair.route->max_bytes) return {Known::kNone, nullptr};
    return {Known::kRoute, pair.route};
  }
  const Clock::time_point until =
      bytes > ring::kMaxBytes ? std::max(pair.none_until, pair.no_long_until) : pair.none_until;
  const bool refused = until != Clock::time_point{} && Clock::now() < until;
  return {refused ? Known::kNone : Known::kSecond, nullptr};
}

Routes::Pair& Routes::At(const BufferPair& pair) {
  const auto found = pairs_.find(pair);
  if (found != pairs_.end()) return found->second;
  if (pairs_.size() >= kMost) pairs_.clear();
  return pairs_[Key{std::string(pair.source_node), std::string(pair.source),
                    std::string(pair.destination_node), std::string(pair.destination)}];
}

void Routes::Set(const BufferPair& pair, RouteRef route) { At(pair) = {std::move(route), {}, {}}; }

void Routes::SetNone(const BufferPair& pair, uint64_t bytes) {
  Pair& none = At(pair);
  if (bytes > ring::kMaxBytes) {
    none.no_long_until = Clock::now() + kAskAgainForLong;
  } else {
    none.none_until = Clock::now() + kAskAgain;
  }
}

void Routes::Drop(const RouteRef& route) {
  for (auto& [key, pair] : pairs_) {
    if (pair.route == route) pair = {};
  }
}

}  // namespace onecopy::client
