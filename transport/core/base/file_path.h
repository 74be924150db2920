// Names of files, as nodes name them to each other.
#pragma once

#include <algorithm>
#include <string_view>

namespace onecopy {

// Whether it is absolute and in its only form: no ".", "..", empty component or NUL, and no slash
// at its end but that of the root. What is equal in that form names the same, as far as there are
// no links; what is compared is then what is opened.
inline bool IsShortestPath(std::string_view path) {
  constexpr size_t kMost = 4095;
  if (path.empty() || path.front() != '/' || path.size() > kMost) return false;
  if (path == "/") return true;
  while (!path.empty()) {
    path.remove_prefix(1);
    const std::string_view part = path.substr(0, std::min(path.find('/'), path.size()));
    if (part.empty() || part == "." || part == "..") return false;
    if (part.find('\0') != std::string_view::npos) return false;
    path.remove_prefix(part.size());
  }
  return true;
}

}  // namespace onecopy
