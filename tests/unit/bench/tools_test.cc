// What the bench reads in the output of other people's programs, and how it runs them.
#include "bench/tools/tool_mover.h"

#include <filesystem>
#include <fstream>

#include "bench/tools/competitor.h"
#include "bench/tools/host_tools.h"
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

}  // namespace
}  // namespace onecopy::bench
