// Names in a text, separated by commas: "tcp-direct,tcp-bounce".
#pragma once

#include <string>

namespace onecopy {

// Adds `name` to `list`, unless it is empty or there already.
inline void AddName(const std::string& name, std::string& list) {
  if (name.empty() || ("," + list + ",").find("," + name + ",") != std::string::npos) return;
  list += (list.empty() ? "" : ",") + name;
}

}  // namespace onecopy
