#include "client/cli/transfer_table.h"

#include <sstream>

#include "client/cli/output/escape.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/text.h"

using namespace onecopy;
using onecopy::testing::Has;

namespace {

TransferInfo Running() {
  TransferInfo transfer;
  transfer.id = TransferId("9f3c2a71d04be856");
  transfer.state = TransferState::kRunning;
  transfer.source = {"east", "weights-of-a-large-model", 0, uint64_t{3} << 30};
  transfer.destination = {"west", "weights-of-a-large-model", 4096, uint64_t{3} << 30};
  transfer.bytes = uint64_t{3} << 30;
  transfer.bytes_done = transfer.bytes / 2;
  transfer.plan = Plan();
  transfer.plan->path = "storage-bounce";
  transfer.receipt.lanes = std::vector<LaneBytes>(16, {"lo", "127.0.0.1:7702", 0});
  return transfer;
}

TransferInfo Failed(uint64_t bytes_done, double seconds) {
  TransferInfo transfer = Running();
  transfer.state = TransferState::kFailed;
  transfer.error = Status(Code::kDeadlineExceeded, reasons::kStalled, "no byte has moved");
  transfer.bytes_done = bytes_done;
  transfer.receipt.seconds = seconds;
  transfer.receipt.bytes_per_second = 12.59e9;
  return transfer;
}

std::vector<std::string> Lines(const std::vector<TransferInfo>& transfers,
                               const cli::TransferTable& options) {
  std::ostringstream out;
  cli::PrintTransfers(out, transfers, options);
  std::istringstream lines(out.str());
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  return all;
}

}  // namespace

TEST_CASE("transfers fit a terminal of 80 columns, with id, progress, rate, path and lanes") {
  const TransferInfo running = Running();
  for (const size_t width : {80, 100, 40, 10}) {
    for (const std::string& line :
         Lines({running, Failed(5, 1)}, {{{running.id, 386.24e9}}, "east", width})) {
      INFO(line);
      CHECK(cli::DisplayWidth(line) <= width);
    }
  }
  const auto lines = Lines({running}, {{{running.id, 386.24e9}}, "east", 80});
  REQUIRE(lines.size() == 2);
  CHECK(Has(lines[0], "LANES"));
  for (const char* part : {"9f3c2a71d04be856", "RUNNING", "50%", "386.24 GB/s", "16", "we", "…"}) {
    INFO(part);
    CHECK(Has(lines[1], part));
  }
  // Where there is room, nothing is left out.
  const auto wide = Lines({running}, {});
  CHECK(Has(wide[1], "east:weights-of-a-large-model@0+3221225472"));
  CHECK(Has(wide[0], "STARTED"));
}

TEST_CASE("what has not moved has no rate") {
  CHECK_FALSE(Has(Lines({Failed(0, 0.5)}, {})[1], "B/s"));
  CHECK(Has(Lines({Failed(5, 0.5)}, {})[1], "12.59 GB/s"));
}
