#include "bench/report_command.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "bench/measure/row_json.h"
#include "bench/report/page.h"
#include "onecopy/reasons.h"

namespace onecopy::bench {
namespace {

Result<std::vector<RecordedRow>> ReadRows(const std::string& path) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error);
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file && !folder) text << file.rdbuf();
  if (!file || folder) {
    return Status(Code::kNotFound, reasons::kFileNotFound, path + " cannot be read");
  }
  Result<std::vector<RecordedRow>> rows = FromJson(text.str());
  if (!rows.ok()) return rows.status().WithContext(path);
  return rows;
}

}  // namespace

Status Report(const ReportOptions& options) {
  std::vector<RecordedRow> rows;
  for (const std::string& path : options.files) {
    ONECOPY_ASSIGN_OR_RETURN(const std::vector<RecordedRow> some, ReadRows(path));
    rows.insert(rows.end(), some.begin(), some.end());
  }
  std::ofstream html(options.html_file, std::ios::binary);
  if (!html) {
    return {Code::kInvalidArgument, reasons::kIo, options.html_file + " cannot be written"};
  }
  html << PageOf(rows);
  if (html.flush()) return OkStatus();
  return {Code::kInternal, reasons::kIo, "writing " + options.html_file + " failed"};
}

}  // namespace onecopy::bench
