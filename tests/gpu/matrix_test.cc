// `onecopy-bench matrix` on real GPUs: its figures of plain CUDA against each other, ours against
// them, and both against nvbandwidth where that is installed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <vector>

#include "tests/gpu/users.h"
#include "tests/support/text.h"
#include "transport/shim/nvml.h"

namespace onecopy::testing::matrix_test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
// A transfer alone begins up to 0.2 ms later than a copy behind another one: a small part of this.
constexpr uint64_t kBytes = 1024 * kMiB;

// What a program prints, its stderr included, so that it is never silent for long.
std::string Output(const std::vector<std::string>& words, int exit_status = 0) {
  std::vector<std::string> arguments = {"-c", "exec \"$0\" \"$@\" 2>&1"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  Process process({.program = "/bin/sh", .arguments = arguments});
  std::string out;
  for (std::string line = process.ReadLine(); !line.empty(); line = process.ReadLine()) {
    out += line;
  }
  std::printf("%s", out.c_str());
  std::fflush(stdout);
  INFO(out);
  CHECK(process.Wait() == exit_status);
  return out;
}

// Two GPUs at most: of eight it would take ten minutes.
std::vector<std::string> FirstGpus() {
  std::vector<std::string> uuids;
  for (const auto& gpu : RealMemory()->Describe()) {
    if (uuids.size() < 2) uuids.push_back(gpu.device);
  }
  return uuids;
}

std::string Visible(const std::vector<std::string>& uuids) {
  std::string text = "CUDA_VISIBLE_DEVICES=";
  for (const std::string& uuid : uuids) text += (text.back() == '=' ? "" : ",") + uuid;
  return text;
}

Json MeasureMatrix(const std::vector<std::string>& uuids) {
  const TempFolder folder;
  Output({"/usr/bin/env", Visible(uuids), ProgramFolder() / "onecopy-bench", "matrix", "--size",
          std::to_string(kBytes), "--samples", "9", "--json", folder / "matrix.json"});
  return Json::parse(ReadFile(folder / "matrix.json"));
}

// Found in the PATH.
std::optional<std::string> Nvbandwidth() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const auto program = std::filesystem::path(folder) / "nvbandwidth";
    if (std::filesystem::exists(program)) return program.string();
  }
  return std::nullopt;
}

// The row of GPU `from` in the first matrix that nvbandwidth prints: " 0  N/A  276.07".
std::optional<double> CellOf(const std::string& out, size_t from, size_t to, size_t gpus) {
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<std::string> cells;
    for (std::string word; words >> word;) cells.push_back(word);
    if (cells.size() != gpus + 1 || cells.front() != std::to_string(from)) continue;
    char* end = nullptr;
    const double value = std::strtod(cells[to + 1].c_str(), &end);
    if (*end == '\0') return value;
  }
  return std::nullopt;
}

void CompareWithNvbandwidth(const Json& matrix, const std::vector<std::string>& uuids) {
  const size_t gpus = uuids.size();
  if (gpus < 2) return;
  const auto program = Nvbandwidth();
  if (!program) {
    WARN("nvbandwidth is not installed: its figures were not compared");
    return;
  }
  const std::string out =
      Output({"/usr/bin/env", Visible(uuids), "CUDA_DEVICE_ORDER=PCI_BUS_ID", *program, "-t",
              "device_to_device_memcpy_write_ce", "-b", std::to_string(kBytes / kMiB), "-i", "9"});
  for (const Json& pair : matrix.at("pairs")) {
    const Json& plain = pair.at("p2p_on_one_way_bytes_per_second");
    if (pair.at("from") == pair.at("to") || plain.is_null()) continue;
    const auto theirs = CellOf(out, pair.at("from"), pair.at("to"), gpus);
    INFO(pair.dump(2));
    REQUIRE(theirs.has_value());
    const double ratio = plain.get<double>() / 1e9 / *theirs;
    std::printf("%s -> %s: %.1f of nvbandwidth's %.1f GB/s, %.3f\n", pair.at("from").dump().c_str(),
                pair.at("to").dump().c_str(), plain.get<double>() / 1e9, *theirs, ratio);
    CHECK(ratio >= 0.97);
    CHECK(ratio <= 1.03);
  }
}

// Everything but what needs P2P is there for any two GPUs.
void CheckComplete(const Json& pair) {
  for (const auto& [key, why] : pair.at("missing").items()) {
    INFO(key << ": " << why.dump());
    CHECK(key.rfind("p2p_on_", 0) == 0);
    CHECK(why.at("reason") == "NO_PEER_ACCESS");
  }
}

void CheckPair(const Json& pair, bool nvlink) {
  INFO(pair.dump(2));
  CheckComplete(pair);
  const Json& on = pair.at("p2p_on_one_way_bytes_per_second");
  const double ours = pair.at("onecopy_bytes_per_second");
  if (on.is_null()) {
    CHECK_FALSE(nvlink);
    CHECK(pair.at("onecopy_path") == "peer-bounce");
    return;
  }
  const bool inside = pair.at("from") == pair.at("to");
  CHECK(pair.at("onecopy_path") == (inside ? "local" : "peer-direct"));
  if (nvlink) CHECK(on.get<double>() >= pair.at("p2p_off_one_way_bytes_per_second").get<double>());
  std::printf("%s -> %s: onecopy %.1f of %.1f GB/s, %.3f\n", pair.at("from").dump().c_str(),
              pair.at("to").dump().c_str(), ours / 1e9, on.get<double>() / 1e9,
              ours / on.get<double>());
  if (!inside) CHECK(ours >= 0.9 * on.get<double>());
}

}  // namespace

TEST_CASE("the matrix of GPUs: P2P is as fast as without, and our transfers as plain copies") {
  ONECOPY_NEEDS_GPUS(1);
  const std::vector<std::string> uuids = FirstGpus();
  const Json matrix = MeasureMatrix(uuids);
  const auto nvlink = shim::Nvlink::Open();
  CHECK(matrix.at("timed_by") == "events");
  REQUIRE(matrix.at("gpus").size() == uuids.size());
  for (const Json& gpu : matrix.at("gpus")) {
    CHECK(std::count(uuids.begin(), uuids.end(), gpu.at("uuid").get<std::string>()) == 1);
  }
  REQUIRE(matrix.at("pairs").size() == uuids.size() * uuids.size());
  for (const Json& pair : matrix.at("pairs")) {
    const bool joined = pair.at("from") != pair.at("to") && nvlink.ok() &&
                        (*nvlink)->Joins(pair.at("from_uuid"), pair.at("to_uuid")).value_or(false);
    CheckPair(pair, joined);
  }
  CompareWithNvbandwidth(matrix, uuids);
}

}  // namespace onecopy::testing::matrix_test
