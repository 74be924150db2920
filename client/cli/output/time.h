// Times and durations as people and programs read them; transport/core/base/duration.h reads what
// they type.
#pragma once

#include <string>

#include "onecopy/transfer.h"

namespace onecopy::cli {

// "2026-11-21T09:30:00Z" (RFC 3339, whole seconds). Empty for the zero time, which stands for "not
// known".
std::string FormatTime(WallTime time);

// "41 ms", "1.25 s", "3m 20s", "2h 5m": about three digits.
std::string FormatSeconds(double seconds);

}  // namespace onecopy::cli
