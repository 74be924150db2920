// What the bench reads in gdsio's lines, and refuses to read.
#include "bench/tools/gdsio.h"

#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "bench/daemons/temp_folder.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"

namespace onecopy::bench {
namespace {

constexpr const char* kSaid =
    "IoType: READ XferType: GPUD Threads: 16 DataSetSize: 1048576/1048576(KiB) IOSize: 4096(KiB) "
    "Throughput: 5.500000 GiB/sec, Avg_Latency: 11363.6 usecs ops: 256 total_time 0.181 secs";

std::string Instead(const std::string& what, const std::string& other) {
  std::string line = kSaid;
  const size_t at = line.find(what);
  REQUIRE(at != std::string::npos);
  return line.replace(at, what.size(), other);
}

TEST_CASE("gdsio's rate is read where it went by GPUDirect, that way") {
  const auto said = ReadGdsio(kSaid, false);
  REQUIRE(said.has_value());
  CHECK(said->bytes_per_second == 5.5 * (1 << 30));
  CHECK(said->verified);
  CHECK_FALSE(ReadGdsio(kSaid, true));
  CHECK(ReadGdsio(Instead("READ", "WRITE"), true).has_value());
}

TEST_CASE("what tells no rate of GPUDirect's is none") {
  const std::vector<std::string> lines = {"",
                                          "Error: cuFileDriverOpen",
                                          Instead("GPUD", "CPUONLY"),
                                          Instead("GPUD", "CPU_GPU"),
                                          Instead("5.500000", "0.000000"),
                                          Instead("5.500000", "-1"),
                                          Instead("5.500000", "fast"),
                                          Instead("5.500000", "inf"),
                                          Instead("5.500000", "5.5x"),
                                          Instead("GiB/sec,", "MiB/sec,"),
                                          std::string(kSaid).substr(0, 100)};
  for (const std::string& line : lines) {
    INFO(line);
    CHECK_FALSE(ReadGdsio(line, false));
  }
}

TEST_CASE("gdsio is told the file, the GPU and the direction, and its rate is for the whole file") {
  const auto folder = TempFolder::Create();
  REQUIRE_OK(folder);
  const std::string program = (*folder)->path() + "/gdsio";
  const std::string asked = (*folder)->path() + "/asked";
  std::ofstream(program) << "#!/bin/sh\necho \"$@\" >> " << asked << "\necho '" << kSaid << "'\n";
  REQUIRE(::chmod(program.c_str(), 0700) == 0);
  const testing::ScopedEnvironment path("PATH", (*folder)->path() + ":/usr/bin:/bin");
  const auto gdsio = MakeGdsio({.file = "/data/f", .bytes = 11 << 20, .gpu = 3});
  REQUIRE_OK(gdsio);
  const auto moved = (*gdsio)->Move();
  REQUIRE_OK(moved);
  CHECK(moved->seconds == (11 << 20) / (5.5 * (1 << 30)));
  std::ifstream in(asked);
  std::string words;
  std::getline(in, words);
  CHECK(words == "-f /data/f -d 3 -w 16 -s 11M -i 4M -x 0 -I 0");
  const auto writes = MakeGdsio({.file = "/data/f", .bytes = 1 << 20, .writes = true});
  REQUIRE_OK(writes);
  // It read, and was told to write.
  CHECK((*writes)->Move().status().reason() == "TOOL_FAILED");
}

}  // namespace
}  // namespace onecopy::bench
