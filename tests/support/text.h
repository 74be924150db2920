// What tests ask of texts.
#pragma once

#include <string>

namespace onecopy::testing {

inline bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace onecopy::testing
