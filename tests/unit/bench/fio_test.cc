// What the bench reads in fio's report, and refuses to read.
#include "bench/tools/fio.h"

#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"

namespace onecopy::bench {
namespace {

std::string Report(const std::string& job) {
  return R"({"fio version": "fio-3.33", "jobs": [)" + job + "]}";
}

constexpr const char* kJob = R"({"jobname": "onecopy", "error": 0, "usr_cpu": 2.5, "sys_cpu": 7.5,
  "read": {"bw_bytes": 2000000000, "runtime": 500, "lat_ns": {"mean": 4000000.0}},
  "write": {"bw_bytes": 0, "runtime": 0, "lat_ns": {"mean": 0.0}}})";

std::string With(const std::string& what, const std::string& instead) {
  std::string job = kJob;
  const size_t at = job.find(what);
  REQUIRE(at != std::string::npos);
  return Report(job.replace(at, what.size(), instead));
}

TEST_CASE("fio's report tells rate, CPU time and latency of the direction that was asked for") {
  const auto said = ReadFioReport(Report(kJob), false);
  REQUIRE(said.ok());
  CHECK(said->bytes_per_second == 2e9);
  CHECK(said->cpu_seconds > 0.0499);
  CHECK(said->cpu_seconds < 0.0501);
  CHECK(said->mean_latency_seconds == 0.004);
  // Nothing was written.
  CHECK(ReadFioReport(Report(kJob), true).status().reason() == "TOOL_FAILED");
}

TEST_CASE("what is no good report of fio's is an error, not a rate") {
  const std::vector<std::string> reports = {"",
                                            "fio: pid=1, err=22/file:filesetup.c: Invalid argument",
                                            "[]",
                                            "{}",
                                            R"({"jobs": 1})",
                                            R"({"jobs": []})",
                                            R"({"jobs": [1]})",
                                            Report(std::string(kJob) + "," + kJob),
                                            Report("{}"),
                                            With(R"("error": 0)", R"("error": 22)"),
                                            With(R"("error": 0)", R"("error": "0")"),
                                            With("2000000000", "-1"),
                                            With("2000000000", R"("fast")"),
                                            With("2000000000", "1e999"),
                                            With(R"("runtime": 500)", R"("run": 500)"),
                                            With(R"("usr_cpu": 2.5)", R"("usr_cpu": null)"),
                                            With(R"("read": {)", R"("reads": {)"),
                                            Report(kJob).substr(0, 100)};
  for (const std::string& report : reports) {
    INFO(report);
    CHECK(ReadFioReport(report, false).status().reason() == "TOOL_FAILED");
  }
}

TEST_CASE("without fio there is no such ceiling") {
  const testing::ScopedEnvironment path("PATH", "/nonexistent");
  CHECK(MakeFio({.file = "f"}).status().code() == Code::kNotFound);
}

}  // namespace
}  // namespace onecopy::bench
