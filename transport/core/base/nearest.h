// Finds the word that a mistyped one was probably meant to be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace onecopy {

// The nearest of `known`, if it is near enough to be meant: a few letters wrong, missing, added or
// swapped, or in the wrong case. Else empty.
std::string Nearest(std::string_view typed, const std::vector<std::string>& known);

}  // namespace onecopy
