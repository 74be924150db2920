// The bench as its user runs it. How fast this machine is decides whether rows are OK, so nothing
// here asks for that.
#include <map>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/node.h"

namespace onecopy::testing {
namespace {

using Words = std::vector<std::string>;

// The rows of a run, by work; several of one name in the order in which they came.
std::map<std::string, std::vector<Json>> RowsOf(Words arguments) {
  const TempFolder folder;
  arguments.insert(arguments.begin(), "run");
  arguments.insert(arguments.end(), {"--json", folder / "rows.json"});
  const CommandResult result = RunCommand("onecopy-bench", arguments);
  INFO(result.err << result.out);
  const Json rows = Json::parse(ReadFile(folder / "rows.json"));
  REQUIRE(rows.is_array());
  bool failed = false;
  std::map<std::string, std::vector<Json>> by_work;
  for (const Json& row : rows) {
    failed |= row.at("status") == "FAILED";
    by_work[row.at("work")].push_back(row);
  }
  CHECK(result.exit_status == (failed ? 1 : 0));
  return by_work;
}

void CheckMeasured(const Json& row, const std::string& path, uint64_t bytes) {
  INFO(row.dump(2));
  CHECK(row.at("path") == path);
  CHECK(row.at("bytes") == bytes);
  CHECK(row.at("samples") == 1);
  CHECK(row.at("verified") == true);
  CHECK(row.at("median_bytes_per_second") > 0);
  CHECK(row.at("ceiling_bytes_per_second") > 0);
  CHECK(row.at("ratio") > 0);
  // Either good enough or too slow, but not broken.
  if (row.at("status") == "FAILED") CHECK(row.at("reason") == "BELOW_FLOOR");
}

TEST_CASE("every work has its rows, and those of host memory are measured on any machine") {
  const auto rows = RowsOf(
      {"--size", "4MiB", "--samples", "1", "--idle", "200ms", "--cuda", "/nonexistent/libcuda.so"});
  CheckMeasured(rows.at("tcp host to host").at(0), "tcp-direct", 4 << 20);
  CHECK(rows.at("tcp host to host").at(0).at("details").at("copies") == 3);
  CheckMeasured(rows.at("local host to host").at(0), "local", 4 << 20);
  for (const char* work : {"tcp gpu to gpu", "peer gpu to gpu", "ready with gpu"}) {
    INFO(work);
    for (const Json& row : rows.at(work)) {
      CHECK(row.at("status") == "WAIVED");
      CHECK(row.at("reason") == "NO_DRIVER");
      CHECK(row.at("ratio").is_null());
    }
  }
  for (const char* work : {"daemon memory east", "daemon memory west"}) {
    REQUIRE(rows.at(work).size() == 2);
    for (const Json& row : rows.at(work)) {
      INFO(row.dump(2));
      CHECK(row.at("unit") == "B");
      CHECK(row.at("status") == "OK");
      CHECK(row.at("median") > 0);
      CHECK(row.at("limit") == (64 << 20) + (128 << 20));
    }
  }
  for (const char* work : {"idle cpu east", "idle cpu west"}) {
    CHECK(rows.at(work).at(0).at("unit") == "cores");
    CHECK(rows.at(work).at(0).at("limit") == 0.001);
  }
  CHECK(rows.at("ready without gpu").at(0).at("samples") == 5);
}

TEST_CASE("the works of GPUs run and verify what they moved") {
  const auto rows = RowsOf(
      {"--filter", "*gpu to gpu", "--size", "3000001", "--samples", "1", "--cuda", FakeCudaPath()});
  REQUIRE(rows.size() == 2);
  CheckMeasured(rows.at("tcp gpu to gpu").at(0), "tcp-staged", 3'000'001);
  CHECK(rows.at("tcp gpu to gpu").at(0).at("details").at("copies") == 5);
  REQUIRE(rows.at("peer gpu to gpu").size() == 2);
  for (const Json& row : rows.at("peer gpu to gpu")) {
    CheckMeasured(row, "peer-direct", 3'000'001);
    CHECK(row.at("details").at("copies") == 1);
  }
}

TEST_CASE("one GPU is enough between nodes, and not inside one") {
  const ScopedEnvironment one("FAKE_CUDA_DEVICES", "1");
  const auto rows = RowsOf(
      {"--filter", "*gpu to gpu", "--size", "1MiB", "--samples", "1", "--cuda", FakeCudaPath()});
  CheckMeasured(rows.at("tcp gpu to gpu").at(0), "tcp-staged", 1 << 20);
  CHECK(rows.at("peer gpu to gpu").at(0).at("status") == "WAIVED");
  CHECK(rows.at("peer gpu to gpu").at(0).at("reason") == "NO_GPU");
}

TEST_CASE("more than fits is WAIVED with the reason") {
  const auto rows = RowsOf({"--filter", "* host to host", "--size", "1000TiB"});
  for (const char* work : {"tcp host to host", "local host to host"}) {
    INFO(work);
    const auto& row = rows.at(work);
    CHECK(row.at(0).at("status") == "WAIVED");
    CHECK(row.at(0).at("reason") == "NO_MEMORY");
  }
}

TEST_CASE("what is asked wrongly is a clear error before anything is measured") {
  const auto says = [](const Words& arguments, int exit_status, const std::string& what) {
    const CommandResult result = RunCommand("onecopy-bench", arguments);
    INFO(result.err);
    CHECK(result.exit_status == exit_status);
    CHECK(result.err.find(what) != std::string::npos);
    CHECK(result.out.empty());
  };
  says({}, 2, "subcommand");
  says({"run", "--size", "0"}, 2, "--size");
  says({"run", "--size", "much"}, 2, "much");
  says({"run", "--samples", "0"}, 2, "--samples");
  says({"run", "--idle", "0s"}, 2, "--idle");
  says({"run", "--filter", "nothing"}, 2, "tcp host to host");
  says({"run", "--json", "/nonexistent/rows.json"}, 2, "/nonexistent/rows.json");
  says({"run", "--onecopyd", "/nonexistent/onecopyd"}, 3, "/nonexistent/onecopyd");
}

TEST_CASE("a daemon that does not start fails the rows and says what it said") {
  const auto rows = RowsOf({"--filter", "tcp host*", "--onecopyd", "/bin/false", "--size", "1MiB"});
  const Json& row = rows.at("tcp host to host").at(0);
  CHECK(row.at("status") == "FAILED");
  CHECK(row.at("detail").get<std::string>().find("has ended") != std::string::npos);
}

}  // namespace
}  // namespace onecopy::testing
