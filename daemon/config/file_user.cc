#include "daemon/config/file_user.h"

#include <algorithm>
#include <charconv>

#include "transport/core/base/name.h"

namespace onecopy::config {

bool IsNodePattern(std::string pattern) {
  std::replace(pattern.begin(), pattern.end(), '*', 'x');
  std::replace(pattern.begin(), pattern.end(), '?', 'x');
  return IsName(pattern);
}

std::optional<FileUser> ParseFileUser(const std::string& text) {
  const size_t at = text.find('@');
  FileUser user;
  if (at != std::string::npos) {
    user.node = text.substr(at + 1);
    if (!IsNodePattern(user.node)) return std::nullopt;
  }
  const std::string uid = text.substr(0, at);
  if (uid == "*") return user;
  uint32_t number = 0;
  const char* const end = uid.data() + uid.size();
  const auto [stop, error] = std::from_chars(uid.data(), end, number);
  // The last number is not a user's.
  if (error != std::errc() || stop != end || number == UINT32_MAX) return std::nullopt;
  user.uid = number;
  return user;
}

std::optional<uint32_t> ParseFileMode(const std::string& text) {
  constexpr uint32_t kMost = 0777;
  constexpr uint32_t kOwners = 0600;
  uint32_t mode = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, mode, 8);
  if (error != std::errc() || stop != end || mode > kMost) return std::nullopt;
  if ((mode & kOwners) != kOwners) return std::nullopt;
  return mode;
}

}  // namespace onecopy::config
