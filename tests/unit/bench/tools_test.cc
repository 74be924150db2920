// What the bench reads in the output of other people's programs, and how it runs them.
#include "bench/tools/tool_mover.h"

#include <filesystem>
#include <fstream>

#include "bench/tools/competitor.h"
#include "bench/tools/host_tools.h"
#include "bench/tools/ingest_tool.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/temp_folder.h"

namespace onecopy::bench {
namespace {

TEST_CASE("iperf3's rate is that of the receiver, of all streams together") {
  const std::string sender =
      "[  5]   0.00-0.21   sec  1.00 GBytes  39837264 Kbits/sec    0             sender";
  const std::string one =
      "[  5]   0.00-0.21   sec  1.00 GBytes  8000000 Kbits/sec                  receiver";
  const std::string sum =
      "[SUM]   0.00-0.21   sec  1.00 GBytes  16000000 Kbits/sec                  receiver";
  CHECK_FALSE(ReadIperf3(sender, false));
  CHECK_FALSE(ReadIperf3("", false));
  CHECK_FALSE(ReadIperf3("receiver", false));
  REQUIRE(ReadIperf3(one, false));
  CHECK(ReadIperf3(one, false)->bytes_per_second == 1e9);
  CHECK_FALSE(ReadIperf3(one, true));
  REQUIRE(ReadIperf3(sum, true));
  CHECK(ReadIperf3(sum, true)->bytes_per_second == 2e9);
}

TEST_CASE("the mean of mbw's rounds counts") {
  CHECK_FALSE(
      ReadMbw("0\tMethod: MEMCPY\tElapsed: 0.02560\tMiB: 256.00000\tCopy: 10000.000 MiB/s"));
  const auto said =
      ReadMbw("AVG\tMethod: MEMCPY\tElapsed: 0.02560\tMiB: 256.00000\tCopy: 10000.000 MiB/s");
  REQUIRE(said);
  CHECK(said->bytes_per_second == 10000.0 * (1 << 20));
}

TEST_CASE("fio's rate is there where it had no error") {
  const std::string line = "3;fio-3.33;read;0;0;262144;2000000;2000;128;0;0";
  REQUIRE(ReadFio(line));
  CHECK(ReadFio(line)->bytes_per_second == 2000000.0 * 1024);
  CHECK_FALSE(ReadFio("3;fio-3.33;read;0;22;262144;2000000;2000;128;0;0"));
  CHECK_FALSE(ReadFio("fio: something went wrong"));
}

// As version 0.8 prints it.
constexpr const char* kNvbandwidth[] = {
    "nvbandwidth Version: v0.8",
    "Device 0: NVIDIA H200 (00000000:00:06)",
    "Running device_to_host_memcpy_ce.",
    "memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)",
    "           0         1",
    " 0     55.00     55.19",
    "",
    "SUM device_to_host_memcpy_ce 110.20",
    "",
    "NOTE: The reported results may not reflect the full capabilities of the platform."};

TEST_CASE("of all that nvbandwidth prints, the sum of its test is read") {
  for (const std::string line : kNvbandwidth) {
    INFO(line);
    const auto said = ReadNvbandwidth(line, "device_to_host_memcpy_ce", 2);
    CHECK(said.has_value() == (line.rfind("SUM", 0) == 0));
    if (said) CHECK(said->bytes_per_second == 55.1e9);
  }
}

TEST_CASE("nvbandwidth's sum is shared among the pairs that it tried") {
  const std::string line = "SUM device_to_device_memcpy_write_ce 780.00";
  const auto said = ReadNvbandwidth(line, "device_to_device_memcpy_write_ce", 2);
  REQUIRE(said);
  CHECK(said->bytes_per_second == 390e9);
  CHECK_FALSE(ReadNvbandwidth(line, "host_to_device_memcpy_ce", 1));
  CHECK_FALSE(ReadNvbandwidth("SUM", "host_to_device_memcpy_ce", 1));
}

TEST_CASE("a competitor says its rate and whether the payload arrived") {
  CHECK(ReadCompetitor("rate 1471613711.5 verified 1")->bytes_per_second == 1471613711.5);
  CHECK(ReadCompetitor("rate 1471613711.5 verified 1")->verified);
  CHECK_FALSE(ReadCompetitor("rate 5 verified 0")->verified);
  CHECK_FALSE(ReadCompetitor("Traceback (most recent call last):"));
}

std::optional<ToolSaid> ReadWord(const std::string& line) {
  return line == "fast" ? std::optional(ToolSaid{100}) : std::nullopt;
}

TEST_CASE("a program is run until it tells its rate") {
  ToolMover mover({.client = {"/bin/sh", "-c", "echo so; echo fast; echo slow"}, .read = ReadWord},
                  50);
  const auto moved = mover.Move();
  INFO(moved.status().ToString());
  REQUIRE(moved.ok());
  CHECK(moved->seconds == 0.5);
  CHECK(*mover.Verify(1));
}

TEST_CASE("a program that tells no rate is an error with its own words") {
  ToolMover mover(
      {.client = {"/bin/sh", "-c", "echo so; echo 'no such device' >&2"}, .read = ReadWord}, 50);
  const auto moved = mover.Move();
  REQUIRE_FALSE(moved.ok());
  CHECK(moved.status().reason() == "TOOL_FAILED");
  CHECK(moved.status().message().find("\"so\": no such device") != std::string::npos);
}

TEST_CASE("a program that saw other bytes than it sent has not verified") {
  ToolMover mover({.client = {"/bin/echo", "rate 5 verified 0"}, .read = ReadCompetitor}, 50);
  REQUIRE(mover.Move().ok());
  CHECK_FALSE(*mover.Verify(1));
}

TEST_CASE("what is not installed is said so") {
  const testing::ScopedEnvironment path("PATH", "/nonexistent");
  CHECK(MakeIperf3(1, 1, 1).status().message() == "iperf3 is not installed");
  CHECK(MakeMbw(1).status().code() == Code::kNotFound);
  CHECK(MakeFioRead("f", 1, 1).status().code() == Code::kNotFound);
  CHECK(MakeNvbandwidth("t", "", 1, 1).status().code() == Code::kNotFound);
  CHECK(MakeCompetitor({}, 1).status().reason() == "NOT_REQUESTED");
  const testing::TempFolder empty;
  CHECK(MakeCompetitor({.folder = empty.path()}, 1).status().code() == Code::kNotFound);
}

// A folder as bench/competitors/install --ingest makes it, whose program is this shell script; the
// word after --json is $json there.
class FakeIngest {
 public:
  explicit FakeIngest(const std::string& script) {
    std::filesystem::create_directories(folder_ / "venv/bin");
    std::filesystem::create_directories(folder_ / "ingest");
    std::ofstream(folder_ / "ingest/run") << "";
    const std::string python = folder_ / "venv/bin/python";
    std::ofstream(python)
        << "#!/bin/sh\nall=\"$*\"\nwhile [ \"$1\" != --json ]; do shift; done; json=$2\n"
        << script << "\n";
    std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  }

  Result<std::vector<Row>> Run(std::function<bool()> stopped = {}) const {
    return RunIngest({.folder = folder_.path(),
                      .run_dir = "/run/of/it",
                      .daemon = 7,
                      .sizes = {1024, 2048},
                      .samples = 3,
                      .stopped = std::move(stopped)});
  }

  std::string marker() const { return folder_ / "marker"; }

 private:
  testing::TempFolder folder_;
};

// Shell that writes such a row for each ratio, of which 1 is the least that is good enough.
std::string WriteRows(const std::vector<std::string>& ratios) {
  std::string rows;
  for (const std::string& ratio : ratios) {
    rows += std::string(rows.empty() ? "" : ",") +
            R"({"work": "ingest cold, one file", "path": "storage-bounce", "bytes": 1024,
      "unit": "B/s", "values": [)" +
            ratio + R"(], "ceiling": "another", "ceiling_values": [1], "floor": 1, "limit": null,
      "verified": true, "status": "OK", "reason": null, "detail": null, "details": {}})";
  }
  return "cat > \"$json\" <<'END'\n[" + rows + "]\nEND\n";
}

TEST_CASE("rows of bench/ingest are taken, and judged here once more") {
  const auto rows = FakeIngest(WriteRows({"0.5", "2"})).Run();
  INFO(rows.status().ToString());
  REQUIRE(rows.ok());
  REQUIRE(rows->size() == 2);
  CHECK(rows->at(0).status == RowStatus::kFailed);
  CHECK(rows->at(0).reason == kBelowFloor);
  CHECK(rows->at(1).status == RowStatus::kOk);
  CHECK(rows->at(1).work == "ingest cold, one file");
}

TEST_CASE("bench/ingest is told what is asked for") {
  const FakeIngest ingest("echo \"$all\" >&2");
  const auto rows = ingest.Run();
  REQUIRE_FALSE(rows.ok());
  CHECK(rows.status().reason() == kToolFailed);
  const std::string message = rows.status().message();
  INFO(message);
  CHECK(message.find("--run-dir /run/of/it --daemon-pid 7 --sizes 1024,2048 --samples 3") !=
        std::string::npos);
}

TEST_CASE("bench/ingest that ends without rows, or with others, is an error with its last words") {
  for (const std::string script : {"echo 'no module named torch' >&2; exit 1",
                                   "echo '[{}]' > \"$json\"; echo 'no module named torch' >&2"}) {
    const auto rows = FakeIngest(script).Run();
    REQUIRE_FALSE(rows.ok());
    CHECK(rows.status().reason() == kToolFailed);
    CHECK(rows.status().message().find(": no module named torch") != std::string::npos);
  }
}

TEST_CASE("bench/ingest that is stopped has the rows until then") {
  const FakeIngest ingest(WriteRows({"2"}) +
                          "touch \"$(dirname \"$0\")/../../marker\"\nexec sleep 1000");
  const auto rows = ingest.Run([&] { return std::filesystem::exists(ingest.marker()); });
  INFO(rows.status().ToString());
  REQUIRE(rows.ok());
  CHECK(rows->size() == 1);
}

TEST_CASE("bench/ingest that is not installed is said so") {
  CHECK(RunIngest({}).status().reason() == "NOT_REQUESTED");
  const testing::TempFolder empty;
  CHECK(RunIngest({.folder = empty.path()}).status().reason() == "FILE_NOT_FOUND");
}

}  // namespace
}  // namespace onecopy::bench
