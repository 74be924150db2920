// Why a path was not taken.
#pragma once

#include <string>

namespace onecopy {

// One reason against one path. All four fields are for people and programs alike: `path` and
// `reason` are stable names, `detail` says what was seen on which device, `remedy` what the reader
// can do about it.
struct Refusal {
  std::string path;
  std::string reason;
  std::string detail;
  std::string remedy;

  friend bool operator==(const Refusal&, const Refusal&) = default;
};

}  // namespace onecopy
