#include "daemon/engine/base/flows.h"

#include <algorithm>
#include <functional>

#include "transport/core/base/glob.h"

namespace onecopy::engine {
namespace {

// Users or nodes whose texts have one hash would share a turn.
uint64_t NumberOf(const std::string& text) { return std::hash<std::string>()(text); }

bool IsPattern(const std::string& node) { return node.find_first_of("*?") != std::string::npos; }

// What the most particular section says, and of several such the value that is preferred.
template <typename Value, typename Prefer>
struct Chosen {
  const Prefer& prefer;
  int rank = -1;
  Value value = {};

  void Consider(int by_rank, const std::optional<Value>& said) {
    if (!said || by_rank < rank) return;
    value = by_rank == rank ? prefer(value, *said) : *said;
    rank = by_rank;
  }
  std::optional<Value> Get() const { return rank < 0 ? std::nullopt : std::optional<Value>(value); }
};

constexpr auto kLargest = [](const auto& a, const auto& b) { return std::max(a, b); };
// Of limits, where 0 is none.
constexpr auto kLowest = [](uint64_t a, uint64_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
};

}  // namespace

template <typename Value, typename Prefer>
std::optional<Value> Flows::OfUser(const Owner& owner, std::optional<Value> ShareOptions::*key,
                                   const Prefer& prefer) const {
  Chosen<Value, Prefer> chosen{prefer};
  for (const ShareOptions& share : shares_) {
    for (const UserPattern& user : share.users) {
      const bool named =
          MatchesGlob(user.node, owner.node) && (!user.uid || owner.uid == Uid(*user.uid));
      if (named) {
        chosen.Consider((user.uid ? 2 : 0) + (IsPattern(user.node) ? 0 : 1), share.*key);
      }
    }
  }
  return chosen.Get();
}

template <typename Value, typename Prefer>
std::optional<Value> Flows::OfNode(const std::string& node, std::optional<Value> ShareOptions::*key,
                                   const Prefer& prefer) const {
  Chosen<Value, Prefer> chosen{prefer};
  for (const ShareOptions& share : shares_) {
    for (const std::string& pattern : share.nodes) {
      if (MatchesGlob(pattern, node)) chosen.Consider(IsPattern(pattern) ? 0 : 1, share.*key);
    }
  }
  return chosen.Get();
}

Flow Flows::Of(const Owner& owner, const std::string& initiator) const {
  const Owner payer = PayerOf(owner);
  std::optional<Priority> priority = OfUser(payer, &ShareOptions::priority, kLargest);
  if (!priority) priority = OfNode(initiator, &ShareOptions::priority, kLargest);
  return {.node = NumberOf(initiator),
          .user = NumberOf(payer.ToString()),
          .node_weight = OfNode(initiator, &ShareOptions::weight, kLargest).value_or(1),
          .user_weight = OfUser(payer, &ShareOptions::weight, kLargest).value_or(1),
          .generation = generation_,
          .priority = priority.value_or(Priority::kNormal)};
}

Flows::Rates Flows::RatesOf(const Owner& owner, const std::string& initiator) const {
  return {OfUser(PayerOf(owner), &ShareOptions::bytes_per_second, kLowest).value_or(0),
          OfNode(initiator, &ShareOptions::bytes_per_second, kLowest).value_or(0)};
}

}  // namespace onecopy::engine
