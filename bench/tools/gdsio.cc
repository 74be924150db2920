#include "bench/tools/gdsio.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <sstream>

namespace onecopy::bench {
namespace {

constexpr uint64_t kGdsioMiB = uint64_t{1} << 20;
constexpr double kGdsioGiB = 1 << 30;
constexpr char kToolkits[] = "/usr/local/cuda/gds/tools/gdsio";

Result<std::string> FindGdsio() {
  Result<std::string> on_path = FindTool("gdsio", "NVIDIA's package gds-tools");
  if (!on_path.ok() && ::access(kToolkits, X_OK) == 0) return std::string(kToolkits);
  return on_path;
}

}  // namespace

// "IoType: READ XferType: GPUD Threads: 16 … Throughput: 5.31 GiB/sec, Avg_Latency: … usecs …"
std::optional<ToolSaid> ReadGdsio(const std::string& line, bool writes) {
  std::istringstream in(line);
  std::string type;
  std::string transfer;
  std::string rate;
  std::string unit;
  for (std::string word; in >> word;) {
    if (word == "IoType:") in >> type;
    if (word == "XferType:") in >> transfer;
    if (word == "Throughput:") in >> rate >> unit;
  }
  if (type != (writes ? "WRITE" : "READ") || transfer != "GPUD" || unit != "GiB/sec,") {
    return std::nullopt;
  }
  char* end = nullptr;
  const double value = std::strtod(rate.c_str(), &end);
  if (end == rate.c_str() || *end != '\0' || !std::isfinite(value) || value <= 0) {
    return std::nullopt;
  }
  return ToolSaid{value * kGdsioGiB};
}

Result<std::unique_ptr<Mover>> MakeGdsio(const GdsioParams& params) {
  ONECOPY_ASSIGN_OR_RETURN(std::string program, FindGdsio());
  const uint64_t whole = std::max(params.bytes / kGdsioMiB, uint64_t{1});
  ToolPrograms programs;
  programs.client = {std::move(program),
                     "-f",
                     params.file,
                     "-d",
                     std::to_string(params.gpu),
                     "-w",
                     std::to_string(params.threads),
                     "-s",
                     std::to_string(whole) + "M",
                     "-i",
                     std::to_string(params.call_bytes / kGdsioMiB) + "M",
                     "-x",
                     "0",
                     "-I",
                     params.writes ? "1" : "0"};
  programs.read = [writes = params.writes](const std::string& line) {
    return ReadGdsio(line, writes);
  };
  return std::unique_ptr<Mover>(
      std::make_unique<ToolMover>(std::move(programs), whole * kGdsioMiB));
}

}  // namespace onecopy::bench
