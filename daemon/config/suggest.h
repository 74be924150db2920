// Inside the configuration: which known word a mistyped one was meant to be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace onecopy::config {

// The nearest of `known`, when it is near enough to be meant: a few letters wrong, missing, added
// or swapped, or in the wrong case. Empty when none is.
std::string Nearest(std::string_view typed, const std::vector<std::string>& known);

}  // namespace onecopy::config
