#include "daemon/engine/base/owners.h"

#include <string_view>

#include "daemon/engine/base/names.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

// In the place of namespaces, as no kernel names them.
constexpr char kAddress[] = "address";

}  // namespace

std::string Owner::ToString() const {
  if (uid == Uid(kNobody)) return "node " + node;
  if (uid == Uid(kNobody, kAddress)) return "the address " + node;
  return uid.ToString() + "@" + node;
}

Owner Stranger(const std::string& address) { return {Uid(Owner::kNobody, kAddress), address}; }

Result<Owner> ParseOwner(const std::string& text, const std::string& node) {
  std::string_view rest;
  const Result<Uid> uid = ParseUid(text, &rest);
  const bool bare = uid.ok() && rest.empty();
  if (!uid.ok() || (!bare && (rest.front() != '@' || rest.size() == 1))) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument, "\"" + text + "\" is not an owner",
                  "write a uid, such as 1000, or uid@node; write a container's user as onecopy "
                  "shows it, such as 0+pid4026532567@node");
  }
  return Owner{*uid, bare ? node : std::string(rest.substr(1))};
}

bool Owners::Same(const Owner& a, const Owner& b) const {
  if (a.uid != b.uid) return false;
  if (a.node == b.node) return true;
  if (a.uid.foreign()) return false;
  const std::string domain = domain_of_(a.node);
  return !domain.empty() && domain == domain_of_(b.node);
}

std::string Owners::DomainRemedy(const Owner& asking, const Owner& owner) const {
  if (asking.uid != owner.uid || asking.uid.foreign()) return {};
  if (asking.node == owner.node || Same(asking, owner)) return {};
  const auto of = [this](const std::string& node) {
    const std::string domain = domain_of_(node);
    return node + "'s is " + (domain.empty() ? "not set" : "\"" + Printable(domain) + "\"");
  };
  return "if uid " + asking.uid.ToString() +
         " is the same user on both nodes, set uid_domain to the same name on both, and under "
         "[peers.NAME] of the other (" +
         of(asking.node) + ", " + of(owner.node) + ")";
}

bool Owners::Owns(const Principal& who, const Owner& owner) const {
  return (who.administrator && who.node == self_) || Same({who.uid, who.node}, owner);
}

}  // namespace onecopy::engine
