#include "bench/tools/competitor.h"

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "bench/tools/perftest.h"
#include "onecopy/reasons.h"

namespace onecopy::bench {

std::optional<ToolSaid> ReadCompetitor(const std::string& line) {
  ToolSaid said;
  int verified = 0;
  if (std::sscanf(line.c_str(), "rate %lf verified %d", &said.bytes_per_second, &verified) != 2) {
    return std::nullopt;
  }
  said.verified = verified == 1;
  return said;
}

Result<std::unique_ptr<Mover>> MakeCompetitor(const CompetitorParams& params, uint64_t bytes) {
  if (params.name == "ucx") return MakeUcxPut(bytes, params.gpu_memory);
  if (params.folder.empty()) {
    return Status(
        Code::kFailedPrecondition, reasons::kNotRequested,
        "competitors are measured only with --competitors",
        "install them with bench/competitors/install, and name the folder with --competitors");
  }
  const std::string script = params.folder + "/" + params.name + "_rate.py";
  const std::string python = params.folder + "/venv/bin/python";
  for (const std::string& file : {python, script}) {
    std::error_code error;
    if (std::filesystem::exists(file, error)) continue;
    return Status(Code::kNotFound, reasons::kFileNotFound, "there is no " + file,
                  "install the competitors with bench/competitors/install");
  }
  ToolPrograms programs{
      .client = {python, script, "--bytes", std::to_string(bytes), "--memory",
                 params.gpu_memory ? "cuda" : "host", "--gpus", std::to_string(params.gpus)},
      .read = ReadCompetitor};
  if (params.tuned) programs.client.push_back("--tuned");
  return std::unique_ptr<Mover>(std::make_unique<ToolMover>(std::move(programs), bytes));
}

}  // namespace onecopy::bench
