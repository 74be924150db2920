// Unique names for buffers.
#pragma once

#include <string>

namespace onecopy::nixl {

// "nixl-" and 16 random digits.
std::string RandomName();

}  // namespace onecopy::nixl
