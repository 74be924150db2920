#include "bench/work/perftest_mover.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "bench/daemons/process.h"
#include "bench/daemons/temp_folder.h"
#include "transport/core/reasons.h"

namespace onecopy::bench {
namespace {

constexpr std::chrono::seconds kPatience{60};
constexpr std::chrono::milliseconds kAgain{100};
constexpr int kTries = 30;  // the client may come before the server listens
constexpr double kMiB = 1 << 20;
constexpr const char* kEnv = "/usr/bin/env";

Result<std::string> FindProgram(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin" : path);
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    std::string program = folder + "/" + name;
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return Status(Code::kNotFound, reasons::kFileNotFound, name + " is not installed",
                "install perftest and ucx-utils (deploy/bootstrap --for rdma)");
}

std::vector<double> Numbers(const std::string& line, char separator) {
  std::string text = line;
  if (separator != ' ') std::replace(text.begin(), text.end(), separator, ' ');
  std::istringstream in(text);
  std::vector<double> numbers;
  std::string word;
  while (in >> word) {
    char* end = nullptr;
    numbers.push_back(std::strtod(word.c_str(), &end));
    if (end == word.c_str() || *end != '\0') return {};
  }
  return numbers;
}

}  // namespace

// "65536 1024 37.01 36.90 0.000590": size, count, peak and mean in MiB/s, messages.
double ReadBwRate(const std::string& line) {
  const std::vector<double> numbers = Numbers(line, ' ');
  return numbers.size() == 5 ? numbers[3] * kMiB : 0;
}

// CSV of -f -v: count, three latencies, then the mean and the overall rate in MiB/s, messages.
double UcxPerftestRate(const std::string& line) {
  const std::vector<double> numbers = Numbers(line, ',');
  return numbers.size() == 8 ? numbers[5] * kMiB : 0;
}

PerftestMover::PerftestMover(Programs programs, uint64_t bytes)
    : programs_(std::move(programs)), bytes_(bytes) {}

Result<double> PerftestMover::RunOnce() {
  ONECOPY_ASSIGN_OR_RETURN(const std::unique_ptr<TempFolder> folder, TempFolder::Create());
  const auto start = [&](const std::vector<std::string>& words) {
    return Process::Start(words[0], {words.begin() + 1, words.end()}, folder->path() + "/log");
  };
  ONECOPY_ASSIGN_OR_RETURN(Process server, start(programs_.server));
  std::string said;
  for (int i = 0; i < kTries; ++i) {
    std::this_thread::sleep_for(kAgain);
    ONECOPY_ASSIGN_OR_RETURN(Process client, start(programs_.client));
    while (true) {
      const Result<std::string> line = client.ReadLine(kPatience);
      if (!line.ok()) {
        if (line.status().code() == Code::kDeadlineExceeded) return line.status();
        break;  // it has ended
      }
      said = *line;
      if (const double rate = programs_.rate(*line); rate > 0) return rate;
    }
  }
  return Status(Code::kUnavailable, reasons::kInternal,
                programs_.client[0] + " told no rate; the last that it said is \"" + said + "\"");
}

Result<Moved> PerftestMover::Move() {
  ONECOPY_ASSIGN_OR_RETURN(const double rate, RunOnce());
  return Moved{.seconds = static_cast<double>(bytes_) / rate};
}

Result<std::unique_ptr<Mover>> MakeReadBw(const RdmaPorts& ports, uint64_t bytes,
                                          uint64_t read_bytes) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string program, FindProgram("ib_read_bw"));
  const auto words = [&](const RdmaPort& port) {
    return std::vector<std::string>{
        program, "-F",
        "-d",    port.device,
        "-x",    std::to_string(port.gid_index),
        "-s",    std::to_string(read_bytes),
        "-n",    std::to_string(std::max<uint64_t>(bytes / read_bytes, 5))};
  };
  PerftestMover::Programs programs{words(ports.east), words(ports.west), ReadBwRate};
  programs.client.push_back(ports.east.address);
  return std::unique_ptr<Mover>(std::make_unique<PerftestMover>(std::move(programs), bytes));
}

Result<std::unique_ptr<Mover>> MakeUcxPerftest(const RdmaPorts& ports, uint64_t bytes,
                                               uint64_t read_bytes) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string program, FindProgram("ucx_perftest"));
  const auto words = [&](const RdmaPort& port) {
    return std::vector<std::string>{kEnv,
                                    "UCX_NET_DEVICES=" + port.device + ":1",
                                    "UCX_TLS=rc_verbs,ud_verbs",
                                    program,
                                    "-t",
                                    "ucp_get",
                                    "-s",
                                    std::to_string(read_bytes),
                                    "-n",
                                    std::to_string(std::max<uint64_t>(bytes / read_bytes, 5)),
                                    "-w",
                                    "1",
                                    "-O",
                                    "16",
                                    "-f",
                                    "-v"};
  };
  PerftestMover::Programs programs{words(ports.east), words(ports.west), UcxPerftestRate};
  programs.client.push_back(ports.east.address);
  return std::unique_ptr<Mover>(std::make_unique<PerftestMover>(std::move(programs), bytes));
}

}  // namespace onecopy::bench
