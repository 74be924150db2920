#include "bench/tools/perftest.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "bench/tools/tool_mover.h"

namespace onecopy::bench {
namespace {

constexpr double kBytesPerMiB = 1 << 20;
// Such puts may do 20 MB/s.
constexpr uint64_t kMaxPutBytes = uint64_t{16} << 20;
constexpr uint64_t kMinPuts = 2;
constexpr uint64_t kMaxPuts = 8;
constexpr const char* kEnv = "/usr/bin/env";
constexpr const char* kPackages = "perftest and ucx-utils (deploy/bootstrap --for rdma)";

std::unique_ptr<Mover> Tool(std::vector<std::string> server, std::vector<std::string> client,
                            double (*rate)(const std::string&), uint64_t bytes) {
  ToolPrograms programs{std::move(server), std::move(client), [rate](const std::string& line) {
                          const double read = rate(line);
                          return read > 0 ? std::optional(ToolSaid{read}) : std::nullopt;
                        }};
  return std::make_unique<ToolMover>(std::move(programs), bytes);
}

// Words of a server, and of a client that is told where that is.
Result<std::unique_ptr<Mover>> Pair(std::vector<std::string> server,
                                    std::vector<std::string> client, const RdmaPorts& ports,
                                    double (*rate)(const std::string&), uint64_t bytes) {
  client.push_back(ports.east.address);
  return Tool(std::move(server), std::move(client), rate, bytes);
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
  return numbers.size() == 5 ? numbers[3] * kBytesPerMiB : 0;
}

// CSV of -f -v: count, three latencies, then the mean and the overall rate in MiB/s, messages.
double UcxPerftestRate(const std::string& line) {
  const std::vector<double> numbers = Numbers(line, ',');
  return numbers.size() == 8 ? numbers[5] * kBytesPerMiB : 0;
}

Result<std::unique_ptr<Mover>> MakeReadBw(const RdmaPorts& ports, uint64_t bytes,
                                          uint64_t read_bytes) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string program, FindTool("ib_read_bw", kPackages));
  const auto words = [&](const RdmaPort& port) {
    return std::vector<std::string>{
        program, "-F",
        "-d",    port.device,
        "-x",    std::to_string(port.gid_index),
        "-s",    std::to_string(read_bytes),
        "-n",    std::to_string(std::max<uint64_t>(bytes / read_bytes, 5))};
  };
  return Pair(words(ports.east), words(ports.west), ports, ReadBwRate, bytes);
}

Result<std::unique_ptr<Mover>> MakeUcxPerftest(const RdmaPorts& ports, uint64_t bytes,
                                               uint64_t read_bytes) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string program, FindTool("ucx_perftest", kPackages));
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
  return Pair(words(ports.east), words(ports.west), ports, UcxPerftestRate, bytes);
}

Result<std::unique_ptr<Mover>> MakeUcxPut(uint64_t bytes, bool gpu) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string program, FindTool("ucx_perftest", kPackages));
  ONECOPY_ASSIGN_OR_RETURN(const std::string port, FreePort());
  const uint64_t put = std::min(bytes, kMaxPutBytes);
  const std::string transports = std::string("UCX_TLS=tcp") + (gpu ? ",cuda_copy" : "");
  std::vector<std::string> client = {
      kEnv,    transports,
      program, "127.0.0.1",
      "-p",    port,
      "-t",    "ucp_put_bw",
      "-s",    std::to_string(put),
      "-n",    std::to_string(std::clamp(bytes / put, kMinPuts, kMaxPuts)),
      "-w",    "1",
      "-f",    "-v"};
  if (gpu) client.insert(client.end(), {"-m", "cuda"});
  return Tool({kEnv, transports, program, "-p", port}, std::move(client), UcxPerftestRate, bytes);
}

}  // namespace onecopy::bench
