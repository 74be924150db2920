// How many transfers from each node were far slower than was measured before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

namespace onecopy::engine {

// Engine thread. The count of a node that is known only grows. Once there are kMost names, those of
// nodes that are not known any more are forgotten: names that come and go do not fill memory.
class SlowTransfers {
 public:
  // As many as there are peers.
  static constexpr size_t kMost = 4096;

  using Known = std::function<bool(const std::string& node)>;
  // `known`: whether the node is a peer, connected or not, or this one.
  explicit SlowTransfers(Known known) : known_(std::move(known)) {}

  void Count(const std::string& node) {
    if (counts_.size() >= kMost && !counts_.contains(node)) {
      std::erase_if(counts_, [this](const auto& one) { return !known_(one.first); });
    }
    ++counts_[node];
  }
  uint64_t of(const std::string& node) const {
    const auto found = counts_.find(node);
    return found == counts_.end() ? 0 : found->second;
  }
  size_t names() const { return counts_.size(); }

 private:
  const Known known_;
  std::map<std::string, uint64_t> counts_;
};

}  // namespace onecopy::engine
