// Spans of time as people type and read them.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "onecopy/result.h"

namespace onecopy {

inline double ToSeconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

// Reads `200ms`, `30s`, `5m`, `2h`: a whole number and its unit. Fails with INVALID_ARGUMENT for
// anything else: no unit, a sign, a fraction, or more than a duration holds.
Result<std::chrono::milliseconds> ParseDuration(std::string_view text);

// "30s", "1500ms": in the largest of these units that loses nothing; ParseDuration reads it back.
std::string FormatDuration(std::chrono::milliseconds duration);

}  // namespace onecopy
