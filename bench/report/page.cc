#include "bench/report/page.h"

#include <algorithm>

#include "bench/report/parts.h"
#include "bench/report/text.h"

namespace onecopy::bench {
namespace {

// Where and when, each run once.
std::string RunsOf(const std::vector<RecordedRow>& rows) {
  std::vector<std::string> runs;
  for (const RecordedRow& recorded : rows) {
    const RunFacts& run = recorded.run;
    std::string line = run.machine.empty() ? "an unknown machine" : run.machine;
    if (!run.time.empty()) line += " · " + run.time;
    if (!run.version.empty()) line += " · onecopy-bench " + run.version;
    if (std::find(runs.begin(), runs.end(), line) == runs.end()) runs.push_back(line);
  }
  std::string html = "<ul class=\"runs\">";
  for (const std::string& run : runs) html += "<li>" + Escaped(run) + "</li>";
  return html + "</ul>";
}

std::string CountsOf(const std::vector<RecordedRow>& rows) {
  std::string html = "<p class=\"counts\">";
  for (const RowStatus status : {RowStatus::kOk, RowStatus::kWaived, RowStatus::kFailed}) {
    const auto count = std::count_if(rows.begin(), rows.end(), [status](const RecordedRow& one) {
      return one.row.status == status;
    });
    const std::string name(RowStatusName(status));
    html += "<span class=\"" + name + "\">" + std::to_string(count) + " " + name + "</span> ";
  }
  return html + "</p>";
}

}  // namespace

std::string PageOf(const std::vector<RecordedRow>& recorded) {
  std::vector<Row> rows;
  for (const RecordedRow& one : recorded) rows.push_back(one.row);
  return std::string(
             "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
             "<title>onecopy-bench</title><style>") +
         kStyle + "</style></head><body><main><h1>onecopy-bench</h1>" + RunsOf(recorded) +
         CountsOf(recorded) + TargetsTable(rows) + "<h2>Drawings</h2><div class=\"figures\">" +
         ChartsOf(rows) + "</div>" + AllTables(rows) + "</main></body></html>\n";
}

}  // namespace onecopy::bench
