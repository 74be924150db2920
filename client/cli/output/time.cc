#include "client/cli/output/time.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>

namespace onecopy::cli {
namespace {

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

}  // namespace onecopy::cli
