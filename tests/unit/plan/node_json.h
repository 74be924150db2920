// Reads a capability descriptor from JSON.
#pragma once

#include <string>

#include "onecopy/capability.h"

namespace onecopy::testing {

// The keys are the field names of NodeCapability; an absent one has its default. Throws
// std::runtime_error for a key that there is not, and nlohmann's exceptions for what is no such
// JSON.
NodeCapability ReadNode(const std::string& json);

}  // namespace onecopy::testing
