#include "bench/report/text.h"

#include <cstdio>

namespace onecopy::bench {
namespace {

std::string Formatted(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped.push_back(c);
    }
  }
  return escaped;
}

std::string Coordinate(double value) { return Formatted("%.1f", value); }

std::string Short(double value) { return Formatted("%.3g", value); }

}  // namespace onecopy::bench
