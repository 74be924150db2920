#include "bench/tools/fio.h"

#include <chrono>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "bench/daemons/process.h"
#include "bench/daemons/temp_folder.h"
#include "bench/measure/row.h"

namespace onecopy::bench {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::minutes kFioLimit{10};
constexpr size_t kMostReport = size_t{1} << 20;

Status NoReport(const std::string& why) {
  return {Code::kUnavailable, kToolFailed, "fio's report " + why};
}

class FioMover final : public Mover {
 public:
  FioMover(std::string program, FioParams params)
      : program_(std::move(program)), params_(std::move(params)) {}

  Status Fill(uint64_t) override { return OkStatus(); }
  Result<bool> Verify(uint64_t) override { return true; }

  Result<Moved> Move() override {
    ONECOPY_ASSIGN_OR_RETURN(const std::unique_ptr<TempFolder> folder, TempFolder::Create());
    const std::string log = folder->path() + "/log";
    ONECOPY_ASSIGN_OR_RETURN(Process process, Process::Start(program_, Arguments(), log));
    std::string report;
    while (report.size() < kMostReport) {
      const Result<std::string> line = process.ReadLine(kFioLimit);
      if (!line.ok() && line.status().code() == Code::kDeadlineExceeded) return line.status();
      if (!line.ok()) break;  // it has ended
      report += *line + "\n";
    }
    Result<FioSaid> said = ReadFioReport(report, params_.writes);
    if (!said.ok()) {
      std::ifstream in(log);
      std::string first;
      std::getline(in, first);
      return first.empty() ? said.status() : NoReport("is none: " + first);
    }
    Moved moved;
    moved.seconds = static_cast<double>(params_.bytes) / said->bytes_per_second;
    moved.cpu_seconds = said->cpu_seconds;
    moved.details["call_seconds"] = said->mean_latency_seconds;
    return moved;
  }

 private:
  std::vector<std::string> Arguments() const {
    return {"--name=onecopy",
            "--filename=" + params_.file,
            params_.writes ? "--rw=write" : "--rw=read",
            "--bs=" + std::to_string(params_.call_bytes),
            "--size=" + std::to_string(params_.bytes),
            "--iodepth=" + std::to_string(params_.depth),
            "--ioengine=io_uring",
            "--direct=1",
            "--fallocate=posix",
            "--unlink=" + std::string(params_.writes ? "1" : "0"),
            "--output-format=json"};
  }

  const std::string program_;
  const FioParams params_;
};

}  // namespace

Result<FioSaid> ReadFioReport(const std::string& report, bool writes) {
  const Json document = Json::parse(report, nullptr, false);
  if (!document.is_object()) return NoReport("is not JSON");
  const auto jobs = document.find("jobs");
  if (jobs == document.end() || !jobs->is_array() || jobs->size() != 1 || !(*jobs)[0].is_object()) {
    return NoReport("is not about one job");
  }
  const Json& job = (*jobs)[0];
  const auto number = [](const Json& in, const char* key) {
    const auto found = in.find(key);
    return found != in.end() && found->is_number() ? found->get<double>() : std::nan("");
  };
  if (number(job, "error") != 0) return NoReport("reports an error, or no state");
  const auto part = job.find(writes ? "write" : "read");
  if (part == job.end() || !part->is_object()) return NoReport("does not report this direction");
  FioSaid said;
  said.bytes_per_second = number(*part, "bw_bytes");
  const double per_core = number(job, "usr_cpu") + number(job, "sys_cpu");
  said.cpu_seconds = per_core / 100 * number(*part, "runtime") / 1000;
  const auto latency = part->find("lat_ns");
  if (latency != part->end() && latency->is_object()) {
    said.mean_latency_seconds = number(*latency, "mean") / 1e9;
  }
  const bool sane = said.bytes_per_second > 0 && said.cpu_seconds >= 0 &&
                    std::isfinite(said.bytes_per_second) && said.mean_latency_seconds >= 0;
  if (!sane) return NoReport("has no rate, or an impossible one");
  return said;
}

Result<std::unique_ptr<Mover>> MakeFio(const FioParams& params) {
  ONECOPY_ASSIGN_OR_RETURN(std::string program, FindTool("fio", "fio"));
  return std::unique_ptr<Mover>(std::make_unique<FioMover>(std::move(program), params));
}

}  // namespace onecopy::bench
