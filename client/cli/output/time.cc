#include "client/cli/output/time.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "client/cli/output/escape.h"
#include "transport/core/reasons.h"

namespace onecopy::cli {
namespace {

struct Unit {
  std::string_view name;
  int64_t milliseconds;
};
constexpr std::array<Unit, 5> kUnits = {
    {{"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}}};

constexpr int64_t kMostMilliseconds = 86'400'000LL * 36500;  // a hundred years

std::string Format(const char* format, double value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

}  // namespace

std::string FormatTime(WallTime time) {
  if (time.time_since_epoch().count() == 0) return "";
  const std::time_t seconds = WallTime::clock::to_time_t(time);
  std::tm parts{};
  std::array<char, 40> text{};
  if (::gmtime_r(&seconds, &parts) == nullptr ||
      std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) {
    return "";
  }
  return text.data();
}

std::string FormatSeconds(double seconds) {
  if (seconds < 0 || !std::isfinite(seconds)) return "-";
  if (seconds < 0.001) return Format("%.0f us", seconds * 1e6);
  if (seconds < 0.1) return Format("%.3g ms", seconds * 1e3);
  if (seconds < 1) return Format("%.0f ms", seconds * 1e3);
  if (seconds < 60) return Format("%.3g s", seconds);
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 3600) return std::to_string(whole / 60) + "m " + std::to_string(whole % 60) + "s";
  return std::to_string(whole / 3600) + "h " + std::to_string(whole % 3600 / 60) + "m";
}

Result<std::chrono::milliseconds> ParseDuration(std::string_view what, std::string_view text) {
  const Status bad(Code::kInvalidArgument, reasons::kBadArgument,
                   std::string(what) + ": " + Quote(text) + " is not a duration",
                   "write for example 500ms, 30s, 5m, 2h or 1h30m");
  int64_t total = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (error != std::errc() || number < 0) return bad;
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    const std::string_view name = rest.substr(0, rest.find_first_of("0123456789"));
    int64_t unit = 0;
    for (const Unit& u : kUnits) {
      if (u.name == name) unit = u.milliseconds;
    }
    if (unit == 0 || number > (kMostMilliseconds - total) / unit) return bad;
    total += number * unit;
    rest.remove_prefix(name.size());
  }
  if (total == 0) return bad;
  return std::chrono::milliseconds(total);
}

}  // namespace onecopy::cli
