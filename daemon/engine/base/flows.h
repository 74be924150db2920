// Whose bytes get which share of what moves them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/base/options.h"
#include "daemon/engine/base/owners.h"
#include "transport/core/base/flow.h"

namespace onecopy::engine {

// Engine thread.
class Flows {
 public:
  // From now on, for what begins then, and for all of an owner's once something of it has.
  void Configure(std::vector<ShareOptions> shares) {
    shares_ = std::move(shares);
    ++generation_;
  }

  // Of a transfer that `owner` asked for at the node `initiator`: that node's turn, and in it the
  // owner's. As for what is charged (Uid::payer), a user's namespaces have no turn of their own.
  // A user's priority counts before a node's.
  Flow Of(const Owner& owner, const std::string& initiator) const;

  // Bytes per second; 0: no limit.
  struct Rates {
    uint64_t of_user = 0;
    uint64_t of_node = 0;  // of all users that ask there together
  };
  Rates RatesOf(const Owner& owner, const std::string& initiator) const;

 private:
  // What the most particular section says of a user, or of a node: those that have the key.
  template <typename Value, typename Prefer>
  std::optional<Value> OfUser(const Owner& owner, std::optional<Value> ShareOptions::*key,
                              const Prefer& prefer) const;
  template <typename Value, typename Prefer>
  std::optional<Value> OfNode(const std::string& node, std::optional<Value> ShareOptions::*key,
                              const Prefer& prefer) const;

  std::vector<ShareOptions> shares_;
  uint32_t generation_ = 0;
};

}  // namespace onecopy::engine
