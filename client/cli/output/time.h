// Times and durations as people and programs read them.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "onecopy/transfer.h"
#include "transport/core/result.h"

namespace onecopy::cli {

// "2026-11-21T09:30:00Z" (RFC 3339, whole seconds). Empty for the zero time, which stands for "not
// known".
std::string FormatTime(WallTime time);

// "41 ms", "1.25 s", "3m 20s", "2h 5m": about three digits.
std::string FormatSeconds(double seconds);

// Reads "500ms", "30s", "5m", "2h", "7d", "1h30m". INVALID_ARGUMENT for anything else, zero
// included; `what` names it.
Result<std::chrono::milliseconds> ParseDuration(std::string_view what, std::string_view text);

}  // namespace onecopy::cli
