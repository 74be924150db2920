// Checks UTF-8: names must be valid, as messages carry them.
#pragma once

#include "onecopy/language.h"  // first

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace onecopy {

struct Utf8Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: there is no valid character
};

// The character at the beginning of `text`, which is not empty. Overlong forms, surrogates and
// what lies beyond U+10FFFF are not valid.
Utf8Character DecodeUtf8(std::string_view text);

// Whether all of it is valid.
bool IsUtf8(std::string_view text);

}  // namespace onecopy
