// How a transfer shares with others what moves its bytes.
#pragma once

#include "onecopy/language.h"  // first

#include <cstdint>
#include <optional>
#include <string_view>

namespace onecopy {

// What waits goes before all that waits with a lower one.
enum class Priority : uint8_t { kLow, kNormal, kHigh };

// "low", "normal" or "high".
std::string_view NameOf(Priority priority);
std::optional<Priority> ParsePriority(std::string_view text);

// Less would hold what a transfer needs for longer than anybody means.
inline constexpr uint64_t kMinRateLimitBytesPerSecond = uint64_t{1} << 20;

// What a request asks for itself. Beside it the limits and priorities hold that the destination's
// node has for the user and the node that ask.
struct Pacing {
  // Of all parts together, at least kMinRateLimitBytesPerSecond; 0: no limit.
  uint64_t rate_limit_bytes_per_second = 0;
  // Among what the same user moves; it takes nothing from other users.
  Priority priority = Priority::kNormal;

  friend bool operator==(const Pacing&, const Pacing&) = default;
};

}  // namespace onecopy
