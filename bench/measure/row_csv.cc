#include "bench/measure/row_csv.h"

#include <cstdio>

#include "bench/measure/statistics.h"

namespace onecopy::bench {
namespace {

constexpr char kCsvTitles[] =
    "work,path,bytes,unit,median,min,max,samples,ceiling,ceiling_median,ratio,floor,roof,target,"
    "limit,verified,status,reason,detail\r\n";

std::string ExactNumber(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::string OrNothing(const std::optional<double>& value) {
  return value ? ExactNumber(*value) : "";
}

std::string Quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted.push_back('"');
    quoted.push_back(c);
  }
  return quoted + "\"";
}

std::string LineOf(const Row& row) {
  const Summary values = Summarise(row.values);
  const auto measured = [&](double value) { return row.values.empty() ? "" : ExactNumber(value); };
  const std::vector<std::string> cells = {
      row.work,
      row.path,
      std::to_string(row.bytes),
      std::string(UnitName(row.unit)),
      measured(values.median),
      measured(values.min),
      measured(values.max),
      std::to_string(row.values.size()),
      row.ceiling,
      row.ceiling_values.empty() ? "" : ExactNumber(Summarise(row.ceiling_values).median),
      OrNothing(row.ratio()),
      OrNothing(row.floor),
      OrNothing(row.roof),
      OrNothing(row.target),
      OrNothing(row.limit),
      row.verified ? (*row.verified ? "true" : "false") : "",
      std::string(RowStatusName(row.status)),
      row.reason,
      row.detail};
  std::string line;
  for (const std::string& cell : cells) line += (line.empty() ? "" : ",") + Quoted(cell);
  return line + "\r\n";
}

}  // namespace

std::string ToCsv(const std::vector<Row>& rows) {
  std::string text = kCsvTitles;
  for (const Row& row : rows) text += LineOf(row);
  return text;
}

}  // namespace onecopy::bench
