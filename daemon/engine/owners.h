// Who counts as whom: uids of this node, of peers, and domains in which they are one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "daemon/engine/types.h"

namespace onecopy::engine {

// An owner of something on this node, or of a transfer: a uid where it was met.
struct Owner {
  uint32_t uid = 0;
  std::string node;

  std::string ToString() const { return std::to_string(uid) + "@" + node; }
  friend auto operator<=>(const Owner&, const Owner&) = default;
};

// "1000@east", or "1000" for a uid of `node`. INVALID_ARGUMENT for anything else.
Result<Owner> ParseOwner(const std::string& text, const std::string& node);

// Engine thread.
class Owners {
 public:
  // `domain_of` gives the uid domain of a node, empty for none; this node's own included.
  Owners(std::string self, std::function<std::string(const std::string& node)> domain_of)
      : self_(std::move(self)), domain_of_(std::move(domain_of)) {}

  // Equal uids of one node, or of two nodes of one domain.
  bool Same(const Owner& a, const Owner& b) const;
  // Whether `who` may do what `owner` may: it is the owner, or an administrator of this node.
  bool Owns(const Principal& who, const Owner& owner) const;

 private:
  const std::string self_;
  const std::function<std::string(const std::string&)> domain_of_;
};

}  // namespace onecopy::engine
