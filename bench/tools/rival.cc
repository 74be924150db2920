#include "bench/tools/rival.h"

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "bench/tools/perftest.h"
#include "onecopy/reasons.h"

namespace onecopy::bench {

std::optional<ToolSaid> ReadRival(const std::string& line) {
  ToolSaid said;
  int verified = 0;
  if (std::sscanf(line.c_str(), "rate %lf verified %d", &said.bytes_per_second, &verified) != 2) {
    return std::nullopt;
  }
  said.verified = verified == 1;
  return said;
}

Result<std::unique_ptr<Mover>> MakeRival(const RivalWay& way, uint64_t bytes) {
  if (way.name == "ucx") return MakeUcxPut(bytes, way.gpu_memory);
  if (way.folder.empty()) {
    return Status(Code::kFailedPrecondition, reasons::kNotRequested,
                  "rivals are measured where they are asked for",
                  "install them by bench/rivals/install, and name the folder by --rivals");
  }
  const std::string script = way.folder + "/" + way.name + "_rate.py";
  const std::string python = way.folder + "/venv/bin/python";
  for (const std::string& file : {python, script}) {
    std::error_code error;
    if (std::filesystem::exists(file, error)) continue;
    return Status(Code::kNotFound, reasons::kFileNotFound, "there is no " + file,
                  "install the rivals by bench/rivals/install");
  }
  ToolPrograms programs{
      .client = {python, script, "--bytes", std::to_string(bytes), "--memory",
                 way.gpu_memory ? "cuda" : "host", "--gpus", std::to_string(way.gpus)},
      .read = ReadRival};
  if (way.tuned) programs.client.push_back("--tuned");
  return std::unique_ptr<Mover>(std::make_unique<ToolMover>(std::move(programs), bytes));
}

}  // namespace onecopy::bench
