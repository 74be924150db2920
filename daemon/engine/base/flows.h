// Whose bytes get which share of what moves them.
#pragma once

#include <string>
#include <vector>

#include "daemon/engine/base/options.h"
#include "daemon/engine/base/owners.h"
#include "transport/core/flow.h"

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
  Flow Of(const Owner& owner, const std::string& initiator) const;

 private:
  uint32_t WeightOfUser(const Owner& owner) const;
  uint32_t WeightOfNode(const std::string& node) const;

  std::vector<ShareOptions> shares_;
  uint32_t generation_ = 0;
};

}  // namespace onecopy::engine
