// Which owners are the same: uids of this node, of peers, and of domains.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "daemon/engine/api/types.h"

namespace onecopy::engine {

// An owner of something on this node, or of a transfer: a uid where it was met.
struct Owner {
  Uid uid;
  std::string node;

  std::string ToString() const;
  friend auto operator<=>(const Owner&, const Owner&) = default;

  // No uid: see WholeNode and Stranger.
  static constexpr uint32_t kNobody = UINT32_MAX;
};

inline Owner OwnerOf(const Principal& who) { return {who.uid, who.node}; }

// Who pays for what the owner uses up (see Uid::payer).
inline Owner PayerOf(const Owner& owner) { return {owner.uid.payer(), owner.node}; }

// The account of another node as a whole, whose word alone says which of its users asks.
inline Owner WholeNode(const std::string& node) { return {Owner::kNobody, node}; }
// Likewise of an address with a connection that has not identified itself yet.
Owner Stranger(const std::string& address);
// Who pays at node `self` for what was asked for at `node` on the owner's behalf: the owner where
// it was asked for here, else that node as a whole.
inline Owner PayerAt(const std::string& self, const std::string& node, const Owner& owner) {
  return node == self ? PayerOf(owner) : WholeNode(node);
}

// "1000@east", or "1000" for a uid of `node`; "0+pid4026532567@east" for one of other namespaces of
// that node (see Uid). INVALID_ARGUMENT for anything else.
Result<Owner> ParseOwner(const std::string& text, const std::string& node);

// Engine thread.
class Owners {
 public:
  // `domain_of` gives the uid domain of a node, empty for none; this node's own included.
  Owners(std::string self, std::function<std::string(const std::string& node)> domain_of)
      : self_(std::move(self)), domain_of_(std::move(domain_of)) {}

  // Equal uids of one node, or of two nodes of one domain. A domain says that uids mean the same on
  // its nodes, which it cannot say of containers: theirs are one owner on one node only.
  bool Same(const Owner& a, const Owner& b) const;
  // What to do where two owners would be one if their nodes were in one domain; else empty.
  std::string DomainRemedy(const Owner& asking, const Owner& owner) const;
  // Calls `use` with each entry of a table by owner whose owner is the same as `who`, without a
  // look at those of other uids.
  template <typename Table, typename Use>
  void ForEachSame(const Table& table, const Owner& who, Use use) const {
    for (auto it = table.lower_bound(Owner{who.uid, {}}); it != table.end(); ++it) {
      if (it->first.uid != who.uid) return;
      if (Same(it->first, who)) use(it->second);
    }
  }
  // Whether `who` may do what `owner` may: it is the owner, or an administrator of this node.
  bool Owns(const Principal& who, const Owner& owner) const;

 private:
  const std::string self_;
  const std::function<std::string(const std::string&)> domain_of_;
};

}  // namespace onecopy::engine
