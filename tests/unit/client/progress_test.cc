#include "client/cli/output/progress.h"

#include <sstream>

#include "tests/support/catch.h"

using onecopy::cli::ProgressBar;
using onecopy::cli::ProgressLine;
using onecopy::cli::RateMeter;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr uint64_t kMB = 1'000'000;

RateMeter::Clock::time_point At(std::chrono::milliseconds since_start) {
  return RateMeter::Clock::time_point(seconds(1000) + since_start);
}

}  // namespace

TEST_CASE("the rate is that of the last few seconds") {
  RateMeter rate;
  CHECK(rate.bytes_per_second() == 0);
  rate.Add(At(seconds(0)), 0);
  CHECK(rate.bytes_per_second() == 0);
  rate.Add(At(seconds(1)), 100 * kMB);
  CHECK(rate.bytes_per_second() == 100 * kMB);
  for (int second = 2; second <= 20; ++second) {
    rate.Add(At(seconds(second)), (100 + static_cast<uint64_t>(second - 1) * 10) * kMB);
  }
  CHECK(rate.bytes_per_second() == 10 * kMB);  // the fast beginning is forgotten
}

TEST_CASE("time left follows from the rate, and is unknown while nothing moves") {
  RateMeter rate;
  CHECK_FALSE(rate.SecondsLeft(100).has_value());
  rate.Add(At(seconds(0)), 0);
  rate.Add(At(seconds(2)), 0);
  CHECK_FALSE(rate.SecondsLeft(100).has_value());
  rate.Add(At(seconds(4)), 40);
  CHECK(rate.SecondsLeft(100) == 6.0);
  CHECK(rate.SecondsLeft(40) == 0.0);
  CHECK(rate.SecondsLeft(10) == 0.0);  // less than what is done
}

TEST_CASE("samples of one moment give no rate") {
  RateMeter rate;
  rate.Add(At(seconds(0)), 0);
  rate.Add(At(seconds(0)), 100);
  CHECK(rate.bytes_per_second() == 0);
}

TEST_CASE("the line shows share, bytes, rate and time left, and never more than the width") {
  RateMeter rate;
  rate.Add(At(seconds(0)), 0);
  rate.Add(At(seconds(1)), 256 << 20);
  const std::string line = ProgressLine(256 << 20, uint64_t{1} << 30, rate, 120);
  CHECK(
      line ==
      "[##########..............................]   25%  256 MiB of 1 GiB, 268.44 MB/s, 3 s left");
  for (size_t width = 0; width < 120; ++width) {
    CHECK(ProgressLine(256 << 20, uint64_t{1} << 30, rate, width).size() <= width);
  }
  CHECK(ProgressLine(256 << 20, uint64_t{1} << 30, rate, 55).find('[') == std::string::npos);
}

TEST_CASE("the bar is empty at the start, full at the end, and of nothing it is full") {
  const RateMeter rate;
  CHECK(ProgressLine(0, 100, rate, 80).find("[....") == 0);
  CHECK(ProgressLine(100, 100, rate, 80).find("####]  100%") != std::string::npos);
  CHECK(ProgressLine(150, 100, rate, 80).find("####]  100%") != std::string::npos);
  CHECK(ProgressLine(0, 0, rate, 80).find("####]  100%") != std::string::npos);
  CHECK(ProgressLine(999'999, 1'000'000, rate, 80).find(" 99%") != std::string::npos);
}

TEST_CASE("without a total there are bytes and rate") {
  const RateMeter rate;
  CHECK(ProgressLine(1024, {}, rate, 80) == "1 KiB, 0 B/s");
}

TEST_CASE("a bar that is not shown draws nothing, and one that is cleans up after itself") {
  std::ostringstream terminal;
  {
    ProgressBar hidden(terminal, false);
    hidden.Update(1, 2);
  }
  CHECK(terminal.str().empty());
  {
    ProgressBar shown(terminal, true);
    shown.Update(1, 2);
    CHECK(terminal.str().front() == '\r');
    CHECK(terminal.str().find("50%") != std::string::npos);
    CHECK(terminal.str().find('\n') == std::string::npos);
  }
  CHECK(terminal.str().ends_with("\r\x1b[K"));
}
