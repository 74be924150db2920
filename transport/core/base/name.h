// Names that people give to nodes and buffers.
#pragma once

#include <algorithm>
#include <string_view>

namespace onecopy {

inline constexpr std::string_view kNameSyntax = "[A-Za-z0-9][A-Za-z0-9._-]{0,62}";

// Whether `text` is of kNameSyntax, whatever the locale.
constexpr bool IsName(std::string_view text) {
  const auto is_alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (text.empty() || text.size() > 63 || !is_alphanumeric(text.front())) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return is_alphanumeric(c) || c == '.' || c == '_' || c == '-';
  });
}

}  // namespace onecopy
