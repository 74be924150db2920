// Inside the configuration: everything that is wrong, collected, and what a mistyped word was meant
// to be.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "onecopy/status.h"

namespace onecopy::config {

class Problems {
 public:
  // `line` 0: of no line in particular.
  void Add(uint32_t line, std::string text) { by_line_.emplace(line, std::move(text)); }

  bool empty() const { return by_line_.empty(); }

  // INVALID_ARGUMENT (BAD_CONFIG) with one line of text for each, in the file's order; success
  // where there is none. `file` may be empty: the problems are not a file's.
  Status ToStatus(const std::string& file) const;

 private:
  std::multimap<uint32_t, std::string> by_line_;
};

}  // namespace onecopy::config
