#include "bench/tools/ingest_tool.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "bench/daemons/process.h"
#include "bench/daemons/temp_folder.h"
#include "bench/measure/row_json.h"
#include "bench/tools/last_word.h"
#include "onecopy/reasons.h"

namespace onecopy::bench {
namespace {

constexpr std::chrono::milliseconds kLook{200};  // how often it is asked whether to go on

std::vector<std::string> Arguments(const IngestParams& params, const std::string& script,
                                   const std::string& json) {
  std::string sizes;
  for (const uint64_t bytes : params.sizes) {
    sizes += (sizes.empty() ? "" : ",") + std::to_string(bytes);
  }
  return {script,
          "--run-dir",
          params.run_dir,
          "--daemon-pid",
          std::to_string(params.daemon),
          "--sizes",
          sizes,
          "--samples",
          std::to_string(params.samples),
          "--json",
          json};
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Until its output ends, or the caller stops it.
void Await(Process& process, const std::function<bool()>& stopped) {
  while (true) {
    const Result<std::string> line = process.ReadLine(kLook);
    if (!line.ok() && line.status().code() != Code::kDeadlineExceeded) return;
    if (stopped && stopped()) return;
  }
}

std::string PythonOf(const std::string& folder) { return folder + "/venv/bin/python"; }
std::string ScriptOf(const std::string& folder) { return folder + "/ingest/run"; }

}  // namespace

Status CheckIngest(const std::string& folder) {
  if (folder.empty()) {
    return {Code::kFailedPrecondition, reasons::kNotRequested,
            "loaders are measured only with --competitors",
            "install them with bench/competitors/install --ingest, and name the folder with "
            "--competitors"};
  }
  for (const std::string& file : {PythonOf(folder), ScriptOf(folder)}) {
    std::error_code error;
    if (std::filesystem::exists(file, error)) continue;
    return {Code::kNotFound, reasons::kFileNotFound, "there is no " + file,
            "install the loaders with bench/competitors/install --ingest"};
  }
  return OkStatus();
}

Result<std::vector<Row>> RunIngest(const IngestParams& params) {
  ONECOPY_RETURN_IF_ERROR(CheckIngest(params.folder));
  const std::string script = ScriptOf(params.folder);
  ONECOPY_ASSIGN_OR_RETURN(const std::unique_ptr<TempFolder> folder, TempFolder::Create());
  const std::string json = folder->path() + "/rows.json";
  const std::string log = folder->path() + "/log";
  {
    ONECOPY_ASSIGN_OR_RETURN(Process process, Process::Start(PythonOf(params.folder),
                                                             Arguments(params, script, json), log));
    Await(process, params.stopped);
  }
  const Result<std::vector<RecordedRow>> recorded = FromJson(ReadAll(json));
  if (!recorded.ok()) {
    return Status(Code::kUnavailable, kToolFailed, script + " reported no rows" + LastWord(log));
  }
  std::vector<Row> rows;
  for (const RecordedRow& one : *recorded) {
    rows.push_back(one.row.status == RowStatus::kOk ? Evaluated(one.row) : one.row);
  }
  return rows;
}

}  // namespace onecopy::bench
