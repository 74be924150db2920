#include "bench/tools/host_tools.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace onecopy::bench {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr double kKiB = 1024;
constexpr int kRounds = 3;  // of nvbandwidth, which prints the median

std::vector<std::string> Words(const std::string& line, char separator) {
  std::vector<std::string> words;
  std::istringstream in(line);
  for (std::string word; std::getline(in, word, separator);) {
    if (!word.empty() || separator != ' ') words.push_back(word);
  }
  return words;
}

std::optional<ToolSaid> Rate(const std::string& number, double unit) {
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  if (end == number.c_str() || value <= 0) return std::nullopt;
  return ToolSaid{value * unit};
}

std::unique_ptr<Mover> Tool(ToolPrograms programs, uint64_t bytes) {
  return std::make_unique<ToolMover>(std::move(programs), bytes);
}

std::string MebiBytes(uint64_t bytes) {
  return std::to_string(std::max(bytes / kMiB, uint64_t{1}));
}

}  // namespace

// "[  5]   0.00-0.21   sec  1.00 GBytes  39837264 Kbits/sec                  receiver"
std::optional<ToolSaid> ReadIperf3(const std::string& line, bool several_streams) {
  constexpr double kBytesInKilobit = 1000.0 / 8;
  const std::vector<std::string> words = Words(line, ' ');
  if (words.empty() || words.back() != "receiver") return std::nullopt;
  if (several_streams != (words.front() == "[SUM]")) return std::nullopt;
  const auto unit = std::find(words.begin(), words.end(), "Kbits/sec");
  if (unit == words.begin() || unit == words.end()) return std::nullopt;
  return Rate(*(unit - 1), kBytesInKilobit);
}

// "AVG  Method: MEMCPY  Elapsed: 0.02  MiB: 256.00000  Copy: 9876.543 MiB/s", with tabs between
std::optional<ToolSaid> ReadMbw(const std::string& line) {
  constexpr char kCopy[] = "Copy: ";
  const size_t at = line.find(kCopy);
  if (line.rfind("AVG", 0) != 0 || at == std::string::npos) return std::nullopt;
  return Rate(line.substr(at + sizeof kCopy - 1), static_cast<double>(kMiB));
}

// Terse output, version 3: fields between semicolons, of which the seventh is KiB read per second.
std::optional<ToolSaid> ReadFio(const std::string& line) {
  constexpr size_t kReadRate = 6;
  const std::vector<std::string> words = Words(line, ';');
  if (words.size() <= kReadRate || words[0] != "3" || words[4] != "0") return std::nullopt;
  return Rate(words[kReadRate], kKiB);
}

// "SUM host_to_device_memcpy_ce 55.64", in units of 1e9 bytes per second; so in versions 0.1 to 0.8
std::optional<ToolSaid> ReadNvbandwidth(const std::string& line, const std::string& test,
                                        unsigned results) {
  const std::vector<std::string> words = Words(line, ' ');
  if (words.size() != 3 || words[0] != "SUM" || words[1] != test) return std::nullopt;
  return Rate(words[2], 1e9 / results);
}

Result<std::unique_ptr<Mover>> MakeIperf3(uint64_t bytes, unsigned streams, uint64_t call_bytes) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string program, FindTool("iperf3", "iperf3"));
  ONECOPY_ASSIGN_OR_RETURN(const std::string port, FreePort());
  return Tool({.server = {program, "-s", "-1", "-B", "127.0.0.1", "-p", port},
               .client = {program, "-c", "127.0.0.1", "-p", port, "-P", std::to_string(streams),
                          "-l", std::to_string(call_bytes), "-n", std::to_string(bytes), "-f", "k",
                          "--forceflush"},
               .read = [several = streams > 1](
                           const std::string& line) { return ReadIperf3(line, several); }},
              bytes);
}

Result<std::unique_ptr<Mover>> MakeMbw(uint64_t bytes) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string program, FindTool("mbw", "mbw"));
  return Tool({.client = {program, "-q", "-n", "1", "-t0", MebiBytes(bytes)}, .read = ReadMbw},
              bytes);
}

Result<std::unique_ptr<Mover>> MakeFioRead(const std::string& file, uint64_t bytes,
                                           uint64_t call_bytes) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string program, FindTool("fio", "fio"));
  return Tool({.client = {program, "--name=read", "--filename=" + file, "--rw=read",
                          "--bs=" + std::to_string(call_bytes), "--size=" + std::to_string(bytes),
                          "--ioengine=psync", "--direct=1", "--readonly", "--allow_file_create=0",
                          "--output-format=terse", "--terse-version=3"},
               .read = ReadFio},
              bytes);
}

Result<std::unique_ptr<Mover>> MakeNvbandwidth(const std::string& test, const std::string& gpus,
                                               unsigned results, uint64_t bytes) {
  ONECOPY_ASSIGN_OR_RETURN(const std::string program,
                           FindTool("nvbandwidth", "nvbandwidth (github.com/NVIDIA/nvbandwidth)"));
  return Tool(
      {.client = {"/usr/bin/env", "CUDA_VISIBLE_DEVICES=" + gpus, program, "-t", test, "-b",
                  MebiBytes(bytes), "-i", std::to_string(kRounds)},
       .read = [test,
                results](const std::string& line) { return ReadNvbandwidth(line, test, results); }},
      bytes);
}

}  // namespace onecopy::bench
