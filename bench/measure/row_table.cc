#include "bench/measure/row_table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "bench/measure/statistics.h"
#include "transport/core/size.h"

namespace onecopy::bench {
namespace {

constexpr size_t kColumns = 9;
using Line = std::array<std::string, kColumns>;

const Line kTitles = {"work",    "path",  "bytes",          "median", "min to max",
                      "ceiling", "ratio", "floor or limit", "status"};

std::string Formatted(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string ValueText(Unit unit, double value) {
  switch (unit) {
    case Unit::kBytesPerSecond:
      return FormatRate(value);
    case Unit::kBytes:
      return FormatBytes(static_cast<uint64_t>(value));
    case Unit::kCores:
      return Formatted("%.3f", value * 100) + " % core";
    case Unit::kSeconds:
      return Formatted("%.1f", value * 1000) + " ms";
  }
  return {};
}

Line LineOf(const Row& row) {
  Line line = {row.work, row.path, row.bytes == 0 ? "" : FormatBytes(row.bytes)};
  if (!row.values.empty()) {
    const Summary values = Summarise(row.values);
    line[3] = ValueText(row.unit, values.median);
    line[4] = ValueText(row.unit, values.min) + " to " + ValueText(row.unit, values.max);
  }
  line[5] = row.ceiling;
  if (!row.ceiling_values.empty()) {
    line[5] += " " + ValueText(row.unit, Summarise(row.ceiling_values).median);
  }
  if (const auto ratio = row.ratio()) line[6] = Formatted("%.3f", *ratio);
  if (row.floor) line[7] = "≥ " + Formatted("%.2f", *row.floor);
  if (row.limit) line[7] = "≤ " + ValueText(row.unit, *row.limit);
  line[8] = RowStatusName(row.status);
  for (std::string& cell : line) {
    if (cell.empty()) cell = "-";
  }
  return line;
}

// Characters of UTF-8, all of which are one column wide here.
size_t Width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
}

}  // namespace

void PrintTable(const std::vector<Row>& rows, std::ostream& out) {
  std::vector<Line> lines = {kTitles};
  for (const Row& row : rows) lines.push_back(LineOf(row));
  std::array<size_t, kColumns> widths{};
  for (const Line& line : lines) {
    for (size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], Width(line[i]));
  }
  for (const Line& line : lines) {
    for (size_t i = 0; i < kColumns; ++i) {
      out << line[i];
      if (i + 1 < kColumns) out << std::string(widths[i] - Width(line[i]) + 2, ' ');
    }
    out << '\n';
  }
  for (const Row& row : rows) {
    if (row.status == RowStatus::kOk) continue;
    out << '\n'
        << row.work << ": " << RowStatusName(row.status) << ", " << row.reason << ": " << row.detail
        << '\n';
  }
}

}  // namespace onecopy::bench
