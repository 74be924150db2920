// How much memory users of other nodes have had allocated here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "onecopy/result.h"

namespace onecopy::engine {

// Engine thread; what Take gives may outlive it.
class PeerRoom {
 public:
  explicit PeerRoom(std::string node) : node_(std::move(node)) {}

  // `bytes` more for that node's users, for as long as what this gives is kept. RESOURCE_EXHAUSTED
  // (QUOTA) where they would have more than `limit` then.
  Result<std::shared_ptr<void>> Take(const std::string& peer, uint64_t bytes, uint64_t limit);

 private:
  const std::string node_;
  const std::shared_ptr<std::map<std::string, uint64_t>> taken_ =
      std::make_shared<std::map<std::string, uint64_t>>();
};

}  // namespace onecopy::engine
