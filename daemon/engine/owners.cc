#include "daemon/engine/owners.h"

#include <charconv>

#include "transport/core/reasons.h"

namespace onecopy::engine {

Result<Owner> ParseOwner(const std::string& text, const std::string& node) {
  Owner owner{0, node};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, owner.uid);
  const bool bare = stop == end;
  if (error != std::errc() || (!bare && (*stop != '@' || stop + 1 == end))) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument, "\"" + text + "\" is not an owner",
                  "write a uid, such as 1000, or uid@node");
  }
  if (!bare) owner.node.assign(stop + 1, end);
  return owner;
}

bool Owners::Same(const Owner& a, const Owner& b) const {
  if (a.uid != b.uid) return false;
  if (a.node == b.node) return true;
  const std::string domain = domain_of_(a.node);
  return !domain.empty() && domain == domain_of_(b.node);
}

bool Owners::Owns(const Principal& who, const Owner& owner) const {
  return (who.administrator && who.node == self_) || Same({who.uid, who.node}, owner);
}

}  // namespace onecopy::engine
