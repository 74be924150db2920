// Names that requests carry, and other people's texts in our messages.
#pragma once

#include <string>

#include "onecopy/result.h"

namespace onecopy::engine {

// INVALID_ARGUMENT (BAD_NAME) unless it is one; `what` says of what ("buffer").
Status CheckName(const std::string& name, const std::string& what);

// The text with everything unprintable replaced, cut to a length fit for a message.
std::string Printable(const std::string& text);

}  // namespace onecopy::engine
