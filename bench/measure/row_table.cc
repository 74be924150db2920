#include "bench/measure/row_table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>

#include "bench/measure/statistics.h"
#include "onecopy/size.h"

namespace onecopy::bench {
namespace {

constexpr double kMaxBytes = 9.2e18;  // less than 2^63
constexpr size_t kColumns = 10;
using TableLine = std::array<std::string, kColumns>;

const TableLine kTableTitles = {"work",    "path",  "bytes",          "median",   "min to max",
                                "ceiling", "ratio", "floor or limit", "to reach", "status"};

std::string Formatted(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

std::string ValueText(Unit unit, double value) {
  switch (unit) {
    case Unit::kBytesPerSecond:
      return FormatRate(value);
    case Unit::kBytes:
      // Rows that were read may hold any number.
      return FormatBytes(static_cast<uint64_t>(std::clamp(value, 0.0, kMaxBytes)));
    case Unit::kCores:
      return Formatted("%.3f", value * 100) + " % core";
    case Unit::kSeconds:
      return value < 1e-3 ? Formatted("%.1f", value * 1e6) + " µs"
                          : Formatted("%.1f", value * 1e3) + " ms";
    case Unit::kSecondsPerGigabyte:
      return Formatted("%.3f", value) + " s/GB";
    case Unit::kBytesPerByte:
      return Formatted("%.2f", value) + " B/B";
    case Unit::kPerSecond:
      return value < 1e6 ? Formatted("%.1f", value / 1e3) + " k/s"
                         : Formatted("%.2f", value / 1e6) + " M/s";
  }
  return {};
}

namespace {

TableLine TableLineOf(const Row& row) {
  TableLine line = {row.work, row.path, row.bytes == 0 ? "" : FormatBytes(row.bytes)};
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
  if (row.roof) line[7] = "≤ " + Formatted("%.2f", *row.roof);
  if (row.limit) line[7] = "≤ " + ValueText(row.unit, *row.limit);
  if (row.target) line[8] = Formatted("%.2f", *row.target);
  line[9] = RowStatusName(row.status);
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

// Each reason once, with the works that it keeps from being OK.
void PrintReasons(const std::vector<Row>& rows, std::ostream& out) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const Row& row : rows) {
    if (row.status == RowStatus::kOk) continue;
    const std::string why =
        std::string(RowStatusName(row.status)) + ", " + row.reason + ": " + row.detail;
    auto found = std::find_if(reasons.begin(), reasons.end(),
                              [&](const auto& one) { return one.first == why; });
    if (found == reasons.end()) found = reasons.insert(reasons.end(), {why, {}});
    std::vector<std::string>& works = found->second;
    if (std::find(works.begin(), works.end(), row.work) == works.end()) works.push_back(row.work);
  }
  for (const auto& [why, works] : reasons) {
    out << '\n';
    for (size_t i = 0; i < works.size(); ++i) out << (i == 0 ? "" : "; ") << works[i];
    out << ": " << why << '\n';
  }
}

}  // namespace

void PrintTable(const std::vector<Row>& rows, std::ostream& out) {
  std::vector<TableLine> lines = {kTableTitles};
  for (const Row& row : rows) lines.push_back(TableLineOf(row));
  std::array<size_t, kColumns> widths{};
  for (const TableLine& line : lines) {
    for (size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], Width(line[i]));
  }
  for (const TableLine& line : lines) {
    for (size_t i = 0; i < kColumns; ++i) {
      out << line[i];
      if (i + 1 < kColumns) out << std::string(widths[i] - Width(line[i]) + 2, ' ');
    }
    out << '\n';
  }
  PrintReasons(rows, out);
}

}  // namespace onecopy::bench
