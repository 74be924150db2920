#include "transport/core/base/duration.h"

#include <array>
#include <charconv>
#include <cstdint>

#include "onecopy/reasons.h"

namespace onecopy {
namespace {

struct DurationUnit {
  std::string_view name;
  int64_t milliseconds;
};

constexpr std::array<DurationUnit, 4> kDurationUnits = {
    {{"h", 3'600'000}, {"m", 60'000}, {"s", 1'000}, {"ms", 1}}};

Status BadDuration(std::string_view text, std::string_view why) {
  return {Code::kInvalidArgument, reasons::kBadArgument,
          "\"" + std::string(text) + "\" is not a duration: " + std::string(why),
          "write a whole number and its unit, such as 200ms, 30s, 5m or 2h"};
}

}  // namespace

Result<std::chrono::milliseconds> ParseDuration(std::string_view text) {
  if (text.empty()) return BadDuration(text, "it is empty");
  if (text.front() == '-') return BadDuration(text, "it is negative");
  int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) return BadDuration(text, "it is too long");
  if (error != std::errc()) return BadDuration(text, "it does not begin with a digit");
  const std::string_view unit_name = text.substr(static_cast<size_t>(stop - text.data()));
  if (unit_name.empty()) return BadDuration(text, "it has no unit");
  for (const DurationUnit& unit : kDurationUnits) {
    if (unit.name != unit_name) continue;
    if (number > INT64_MAX / unit.milliseconds) return BadDuration(text, "it is too long");
    return std::chrono::milliseconds(number * unit.milliseconds);
  }
  return BadDuration(text, "unknown unit \"" + std::string(unit_name) + "\"");
}

std::string FormatDuration(std::chrono::milliseconds duration) {
  const int64_t count = duration.count();
  if (count == 0) return "0s";
  for (const DurationUnit& unit : kDurationUnits) {
    if (count % unit.milliseconds == 0) {
      return std::to_string(count / unit.milliseconds) + std::string(unit.name);
    }
  }
  return std::to_string(count) + "ms";
}

}  // namespace onecopy
