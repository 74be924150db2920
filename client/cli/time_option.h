// Spans of time that options take.
#pragma once

#include <chrono>
#include <string>

#include "onecopy/result.h"

namespace onecopy::cli {

// Reads "500ms", "30s", "5m", "2h". INVALID_ARGUMENT for anything else, no time at all included;
// `option` goes before the message.
Result<std::chrono::milliseconds> ParseTimeOption(const std::string& option,
                                                  const std::string& typed);

}  // namespace onecopy::cli
