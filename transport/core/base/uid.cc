#include "transport/core/base/uid.h"

#include <algorithm>
#include <charconv>

#include "onecopy/reasons.h"

namespace onecopy {
namespace {

constexpr size_t kMaxNamespaces = 80;
constexpr char kSeparator = '+';

bool IsLetter(char c) { return c >= 'a' && c <= 'z'; }
bool Fits(char c) { return IsLetter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-'; }

Status NoUid(std::string_view text) {
  return {Code::kInvalidArgument, reasons::kBadArgument,
          "\"" + std::string(text) + "\" is not a uid", "write a number, such as 1000"};
}

}  // namespace

std::string Uid::ToString() const {
  return foreign() ? std::to_string(number) + kSeparator + namespaces : std::to_string(number);
}

Status CheckNamespaces(const std::string& text) {
  if (text.empty()) return OkStatus();
  if (text.size() <= kMaxNamespaces && IsLetter(text.front()) &&
      std::all_of(text.begin(), text.end(), Fits)) {
    return OkStatus();
  }
  return {Code::kInvalidArgument, reasons::kBadArgument,
          "the part after the + of a uid does not name a namespace",
          "write it as onecopy shows it, such as 0+pid4026532567"};
}

Result<Uid> ParseUid(std::string_view text, std::string_view* rest) {
  Uid uid;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, uid.number);
  if (error != std::errc()) return NoUid(text);
  *rest = text.substr(static_cast<size_t>(stop - text.data()));
  if (rest->empty() || rest->front() != kSeparator) return uid;
  rest->remove_prefix(1);
  const auto last = std::find_if_not(rest->begin(), rest->end(), Fits);
  const auto length = static_cast<size_t>(last - rest->begin());
  uid.namespaces = rest->substr(0, length);
  if (!uid.foreign()) return NoUid(text);
  ONECOPY_RETURN_IF_ERROR(CheckNamespaces(uid.namespaces));
  rest->remove_prefix(length);
  return uid;
}

}  // namespace onecopy
