// Patterns in which * stands for any characters and ? for one.
#pragma once

#include <string_view>

namespace onecopy {

bool MatchesGlob(std::string_view glob, std::string_view name);

}  // namespace onecopy
