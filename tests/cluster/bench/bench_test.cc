// The bench as its user runs it. How fast this machine is decides whether rows are OK, so nothing
// here asks for that.
#include <fcntl.h>
#include <sys/stat.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/fake_cufile.h"
#include "tests/support/node.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::testing {
namespace {

using Words = std::vector<std::string>;

// The rows of a run, by work; several of one name in the order in which they came.
std::map<std::string, std::vector<Json>> RowsOf(Words arguments) {
  const TempFolder folder;
  // What is being measured is told on stderr: all works together may take more than the minute for
  // which a program may say nothing.
  arguments.insert(arguments.begin(),
                   {"-c", "exec \"$0\" \"$@\" 2>&1", ProgramFolder() / "onecopy-bench", "run"});
  arguments.insert(arguments.end(), {"--json", folder / "rows.json"});
  const CommandResult result = RunCommand("/bin/sh", arguments);
  INFO(result.out);
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

// Either good enough or too slow, but not broken.
void CheckNotBroken(const Json& row) {
  if (row.at("status") != "FAILED") return;
  CHECK((row.at("reason") == "BELOW_FLOOR" || row.at("reason") == "OVER_LIMIT"));
}

void CheckMeasured(const Json& row, const std::string& path, uint64_t bytes) {
  INFO(row.dump(2));
  CHECK(row.at("path") == path);
  CHECK(row.at("bytes") == bytes);
  CHECK(row.at("samples") >= 1);
  CHECK(row.at("verified") == true);
  CHECK(row.at("median_bytes_per_second") > 0);
  CHECK(row.at("ceiling_bytes_per_second") > 0);
  CHECK(row.at("ratio") > 0);
  CheckNotBroken(row);
}

TEST_CASE("every work has its rows, and those of host memory are measured on any machine") {
  const auto rows = RowsOf(
      {"--size", "4MiB", "--samples", "1", "--idle", "200ms", "--cuda", "/nonexistent/libcuda.so"});
  CheckMeasured(rows.at("tcp host to host, staged").at(0), "tcp-staged", 4 << 20);
  CheckMeasured(rows.at("direct to staged, tcp host").at(0), "tcp-direct", 4 << 20);
  for (const char* work :
       {"register host memory", "register a slice of host memory", "allocate host memory",
        "first byte, between nodes", "first byte, in a node"}) {
    INFO(work);
    const Json& row = rows.at(work).at(0);
    CHECK(row.at("unit") == "s");
    CHECK(row.at("status") == "OK");
    CHECK(row.at("median") > 0);
  }
  const Json& traffic = rows.at("host memory traffic (computed) tcp host to host").at(0);
  CHECK(traffic.at("unit") == "B/B");
  CHECK(traffic.at("median") == 4);
  const Json& cpu = rows.at("cpu tcp host to host").at(0);
  CHECK(cpu.at("unit") == "s/GB");
  CHECK(cpu.at("median") > 0);
  CHECK(cpu.at("ceiling") == "plain-sockets");
  CHECK(cpu.at("ratio") > 0);
  CheckMeasured(rows.at("tcp host to host").at(0), "tcp-direct", 4 << 20);
  CHECK(rows.at("tcp host to host").at(0).at("details").at("copies") == 3);
  CheckMeasured(rows.at("local host to host").at(0), "local", 4 << 20);
  CheckMeasured(rows.at("encrypted host to host").at(0), "tcp-direct", 4 << 20);
  for (const auto& [work, of_work] : rows) {
    for (const Json& row : of_work) {
      INFO(row.dump(2));
      CheckNotBroken(row);
    }
  }
  for (const char* work : {"scattered 1,000 x 64 KiB", "strided column"}) {
    INFO(work);
    REQUIRE(rows.at(work).size() == 4);
    CHECK(rows.at(work)[0].at("reason") == "NO_DRIVER");
    CHECK(rows.at(work)[1].at("reason") == "NO_DRIVER");
    const bool column = std::string(work) == "strided column";
    CheckMeasured(rows.at(work)[2], column ? "tcp-bounce" : "tcp-direct", 4 << 20);
    CheckMeasured(rows.at(work)[3], "local", 4 << 20);
    CHECK(rows.at(work)[3].at("details").at("ranges") == (column ? 1 : 64));
    CHECK(rows.at(work)[3].at("target") == (column ? 0.5 : 0.85));
    CHECK(rows.at(work)[3].at("floor").is_null() == column);
  }
  CheckMeasured(rows.at("scattered 131,072 x 16 KiB").at(0), "local", 4 << 20);
  CHECK(rows.at("scattered 131,072 x 16 KiB").at(0).at("details").at("ranges") == 256);
  for (const char* work :
       {"tcp gpu to gpu", "peer gpu to gpu", "peer gpu to gpu, bounced", "local host to gpu",
        "cpu tcp gpu to gpu", "direct to staged, peer", "allocate gpu memory",
        "ceiling check: peer copies against nvbandwidth", "ready with gpu"}) {
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
      CHECK(row.at("limit") == (128 << 20) + (128 << 20));
    }
  }
  for (const char* work : {"idle cpu east", "idle cpu west", "idle cpu east, rings open",
                           "idle cpu west, rings open"}) {
    CHECK(rows.at(work).at(0).at("unit") == "cores");
    CHECK(rows.at(work).at(0).at("limit") == 0.001);
  }
  CHECK(rows.at("ready without gpu").at(0).at("samples") == 5);
  CHECK(rows.at("ingest").at(0).at("status") == "WAIVED");
  CHECK(rows.at("ingest").at(0).at("reason") == "NOT_REQUESTED");
}

TEST_CASE("scattered ranges and columns of GPUs are moved by the kernel, and verified") {
#if defined(ONECOPY_TEST_NO_KERNELS)
  constexpr int kKernels = 0;
#else
  constexpr int kKernels = 1;
#endif
  for (const char* work : {"scattered 1,000 x 64 KiB", "strided column"}) {
    INFO(work);
    const auto rows =
        RowsOf({"--filter", work, "--size", "1MiB", "--samples", "1", "--cuda", FakeCudaPath(),
                // However busy this machine is, which looks like a busy GPU.
                "--cuda-key", "scatter = \"kernel\""});
    CheckMeasured(rows.at(work)[0], "peer-direct", 1 << 20);
    CHECK(rows.at(work)[0].at("details").at("kernel_steps") == kKernels);
    CheckMeasured(rows.at(work)[1], "tcp-staged", 1 << 20);
    // A column is gathered from structures, and arrives as a plain array.
    CHECK(rows.at(work)[1].at("details").at("kernel_steps") ==
          kKernels * (std::string(work) == "strided column" ? 1 : 2));
  }
}

TEST_CASE("the works of GPUs run and verify what they moved") {
  const auto rows = RowsOf(
      {"--filter", "*gpu*", "--size", "3000001", "--samples", "1", "--cuda", FakeCudaPath()});
  const auto measured = [&](const std::string& work, const std::string& path, int copies) {
    INFO(work);
    CheckMeasured(rows.at(work).at(0), path, 3'000'001);
    CHECK(rows.at(work).at(0).at("details").at("copies") == copies);
  };
  measured("tcp gpu to gpu", "tcp-staged", 5);
  measured("tcp gpu to host", "tcp-bounce", 4);
  measured("tcp host to gpu", "tcp-bounce", 4);
  measured("local host to gpu", "local", 1);
  measured("local gpu to host", "local", 1);
  measured("peer gpu to gpu", "peer-direct", 1);
  measured("peer gpu to gpu, bounced", "peer-bounce", 2);
  measured("peer gpu to gpu, between daemons", "peer-direct", 1);
  CHECK(rows.at("peer gpu to gpu").size() == 2);
  CHECK(rows.at("local gpu to gpu").at(0).at("verified") == true);
  CHECK(rows.at("local gpu to gpu").at(0).at("ceiling").is_null());
  const Json& traffic = rows.at("host memory traffic (computed) tcp gpu to gpu").at(0);
  CHECK(traffic.at("median") == 6);
  const Json& details = rows.at("tcp gpu to gpu").at(0).at("details");
  CHECK(details.at("ceiling_plain_sockets_seconds") > 0);
  CHECK(details.at("ceiling_pinned_copies_seconds") > 0);
}

TEST_CASE("a direct path is held against the staged one in its place") {
  const auto rows =
      RowsOf({"--filter", "direct*", "--size", "1MiB", "--samples", "1", "--cuda", FakeCudaPath()});
  CheckMeasured(rows.at("direct to staged, peer").at(0), "peer-direct", 1 << 20);
  CHECK(rows.at("direct to staged, peer").at(0).at("ceiling") == "peer-bounce");
  CheckMeasured(rows.at("direct to staged, peer between daemons").at(0), "peer-direct", 1 << 20);
  CHECK(rows.at("direct to staged, rdma host").at(0).at("status") == "WAIVED");
}

TEST_CASE("files have their rows, whose ceilings are measured beside them") {
  const auto rows = RowsOf({"--filter", "storage", "--size", "3000001", "--samples", "1"});
  for (const char* way : {"read, cold", "read, cold, page cache", "read, warm", "write",
                          "write, page cache", "read, tmpfs", "write, tmpfs"}) {
    const std::string work = std::string("storage ") + way;
    const Json& row = rows.at(work).at(0);
    INFO(row.dump(2));
    // A folder that is memory has no way past the page cache, a machine perhaps no tmpfs.
    if (row.at("status") == "WAIVED") {
      CHECK(row.at("reason") == "NOT_APPLICABLE");
      continue;
    }
    CheckMeasured(row, "storage-bounce", 3'000'001);
    CHECK(row.at("details").at("ceiling_call_bytes") > 0);
    CHECK(rows.at("cpu " + work).at(0).at("median") >= 0);
    CHECK(rows.at("host memory traffic (computed) " + work).at(0).at("median") >= 1);
  }
  CHECK(rows.at("storage read to gpu, cold").at(0).at("status") == "WAIVED");
  for (const char* work : {"storage read, cold, against fio", "storage write, against fio"}) {
    const Json& row = rows.at(work).at(0);
    INFO(row.dump(2));
    if (row.at("status") == "WAIVED") continue;  // it is not installed
    CheckMeasured(row, "storage-bounce", 16 << 20);
    CHECK(row.at("details").at("ceiling_call_seconds") > 0);
  }
  CHECK(rows.at("storage plain read, warm, 32 x 1 MiB").at(0).at("verified") == true);
  const Json& memory = rows.at("storage daemon memory").at(0);
  INFO(memory.dump(2));
  CHECK(memory.at("status") == "OK");
  CHECK(memory.at("verified") == true);
  CHECK(memory.at("bytes") == uint64_t{100} * (64 << 20));
  CHECK(memory.at("limit") == (128 << 20) + (128 << 20));
}

TEST_CASE("the drive's own way has its rows, beside slots and beside gdsio") {
  const ScopedEnvironment drive("FAKE_CUFILE", "");
  const TempFolder tools;
  WriteFile(tools / "in", "bytes");
  const os::UniqueFd direct(::open((tools / "in").c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  if (!direct) ONECOPY_SKIP("the file system of temporary files has no O_DIRECT");
  const std::string said =
      "IoType: READ XferType: GPUD Threads: 16 DataSetSize: 4096/4096(KiB) IOSize: 4096(KiB) "
      "Throughput: 0.500000 GiB/sec, Avg_Latency: 1.0 usecs ops: 1 total_time 0.008 secs";
  WriteFile(tools / "gdsio", "#!/bin/sh\necho '" + said + "'\n");
  REQUIRE(::chmod((tools / "gdsio").c_str(), 0700) == 0);
  const ScopedEnvironment path("PATH", tools / ":" + std::string(std::getenv("PATH")));
  const auto rows = RowsOf({"--filter", "storage direct*", "--size", "4MiB", "--samples", "1",
                            "--cuda", FakeCudaPath(), "--cufile", FakeCufilePath()});
  for (const char* work : {"storage direct read to gpu, cold", "storage direct write from gpu"}) {
    const Json& row = rows.at(work).at(0);
    CheckMeasured(row, "storage-direct", 4 << 20);
    CHECK(row.at("ceiling") == "storage-bounce");
    CHECK(row.at("details").at("copies") == 1);
    CHECK(row.at("details").at("ceiling_copies") >= 2);  // one more through the page cache
    CHECK(rows.at(std::string("host memory traffic (computed) ") + work).at(0).at("median") == 0);
  }
  const Json& beside = rows.at("storage direct read to gpu, cold, against gdsio").at(0);
  CheckMeasured(beside, "storage-direct", 4 << 20);
  // This gdsio reads whatever it is told.
  const Json& wrong = rows.at("storage direct write from gpu, against gdsio").at(0);
  INFO(wrong.dump(2));
  CHECK(wrong.at("status") == "FAILED");
  CHECK(wrong.at("reason") == "TOOL_FAILED");
}

TEST_CASE("without a drive that reaches a GPU its rows say why") {
  const ScopedEnvironment drive("FAKE_CUFILE", "compat");
  const auto rows = RowsOf({"--filter", "storage direct read*", "--size", "1MiB", "--samples", "1",
                            "--cuda", FakeCudaPath(), "--cufile", FakeCufilePath()});
  for (const auto& [work, of_work] : rows) {
    INFO(of_work.at(0).dump(2));
    CHECK(of_work.at(0).at("status") == "WAIVED");
    CHECK(of_work.at(0).at("reason") != "");
  }
  CHECK(rows.size() == 2);
}

TEST_CASE("files of other nodes, many ranges and many buffers have their rows") {
  decltype(RowsOf({})) rows;
  for (const char* filter : {"storage ranges", "storage read to four*", "storage * across *"}) {
    rows.merge(RowsOf(
        {"--filter", filter, "--size", "3000001", "--samples", "1", "--cuda", FakeCudaPath()}));
  }
  const auto row_of = [&](const std::string& work) {
    const Json& row = rows.at(work).at(0);
    INFO(row.dump(2));
    CHECK(row.at("status") == "OK");
    CHECK(row.at("verified") == true);
    CHECK(row.at("median") > 0);
    CHECK(row.at("ceiling_bytes_per_second") > 0);
    return row;
  };
  for (const char* work : {"storage ranges, cold", "storage ranges, warm"}) {
    const Json row = row_of(work);
    CHECK(row.at("bytes") >= 3'000'001);
    CHECK(row.at("details").at("ranges") == 17);  // nine sizes in turn, until it is enough
  }
  for (const char* way : {"cold", "warm"}) {
    CHECK(row_of(std::string("storage read to four buffers, ") + way).at("details").at("buffers") ==
          4);
    CHECK(
        row_of(std::string("storage read to four gpu buffers, ") + way).at("details").at("gpus") >=
        1);
    const Json row = row_of(std::string("storage read across nodes, ") + way);
    CHECK(row.at("details").at("ceiling_wire_seconds") > 0);
    CHECK(row.at("details").at("ceiling_file_seconds") > 0);
    CHECK(row.at("details").at("copies") >= 3);
  }
  row_of("storage write across nodes");
}

TEST_CASE("files to and from a GPU are measured where there is one") {
  const auto rows = RowsOf({"--filter", "storage * gpu*", "--size", "3000001", "--samples", "1",
                            "--cuda", FakeCudaPath()});
  for (const char* work :
       {"storage read to gpu, cold", "storage read to gpu, warm", "storage write from gpu"}) {
    const Json& row = rows.at(work).at(0);
    INFO(row.dump(2));
    if (row.at("status") == "WAIVED") {
      CHECK(row.at("reason") == "NOT_APPLICABLE");
      continue;
    }
    CheckMeasured(row, "storage-bounce", 3'000'001);
    CHECK(row.at("details").at("ceiling_pinned_copies_seconds") > 0);
  }
}

TEST_CASE("a file system without room for the files is WAIVED") {
  const auto rows = RowsOf({"--filter", "storage write, tmpfs", "--size", "1000TiB"});
  const Json& row = rows.at("storage write, tmpfs").at(0);
  CHECK(row.at("status") == "WAIVED");
  const std::string reason = row.at("reason");
  CHECK((reason == "NO_SPACE" || reason == "NO_MEMORY"));
}

TEST_CASE("GPU memory is allocated and registered, by the driver that --cuda names") {
  const auto rows = RowsOf(
      {"--filter", "registration", "--size", "1MiB", "--samples", "1", "--cuda", FakeCudaPath()});
  CHECK(rows.at("allocate gpu memory").at(0).at("status") == "OK");
  CHECK(rows.at("allocate gpu memory").at(0).at("median") > 0);
  for (const char* work :
       {"register gpu memory of cuMemAlloc", "register gpu memory of cuMemCreate"}) {
    INFO(rows.at(work).at(0).dump(2));
    CHECK(rows.at(work).at(0).at("status") == "OK");
    CHECK(rows.at(work).at(0).at("median") > 0);
  }
}

TEST_CASE("sizes and lanes each have rows of their own") {
  const auto rows = RowsOf({"--filter", "tcp host to host", "--sizes", "8MiB,4KiB,8MiB", "--lanes",
                            "1,3", "--samples", "1"});
  for (const auto& [work, lanes] :
       {std::pair{"tcp host to host, 1 lane", 1}, std::pair{"tcp host to host, 3 lanes", 3}}) {
    INFO(work);
    REQUIRE(rows.at(work).size() == 2);
    CHECK(rows.at(work).at(0).at("bytes") == 4096);
    CHECK(rows.at(work).at(1).at("bytes") == 8 << 20);
    CHECK(rows.at(work).at(1).at("details").at("lanes") == lanes);
  }
}

TEST_CASE("what tune has written is what is measured, but for what is asked for") {
  const TempFolder folder;
  const std::string tuned = folder / "tuned.toml";
  WriteFile(tuned, "version = 1\n[staging]\nslots = 8\n[tcp]\nlanes = 3\n");
  const auto lanes = [&](Words more) {
    const Words common = {"--filter", "tcp host to host", "--size", "8MiB", "--samples",
                          "1",        "--tuned",          tuned};
    more.insert(more.end(), common.begin(), common.end());
    const auto rows = RowsOf(more);
    const Json& row = rows.begin()->second.at(0);
    INFO(row.dump(2));
    CHECK(row.at("machine").get<std::string>().find("settings of " + tuned) != std::string::npos);
    return row.at("details").at("lanes").get<int>();
  };
  CHECK(lanes({}) == 3);
  CHECK(lanes({"--slots", "16", "--slot-size", "128KiB"}) == 3);
  CHECK(lanes({"--lanes", "2"}) == 2);
}

TEST_CASE("one GPU is enough between nodes, and not inside one") {
  const ScopedEnvironment one("FAKE_CUDA_DEVICES", "1");
  const auto rows = RowsOf(
      {"--filter", "*r gpu to gpu", "--size", "1MiB", "--samples", "1", "--cuda", FakeCudaPath()});
  const auto between = RowsOf(
      {"--filter", "tcp gpu*", "--size", "1MiB", "--samples", "1", "--cuda", FakeCudaPath()});
  CheckMeasured(between.at("tcp gpu to gpu").at(0), "tcp-staged", 1 << 20);
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
  says({"run", "--sizes", "1MiB,0"}, 2, "--sizes");
  says({"run", "--sizes", "1MiB", "--size", "1MiB"}, 2, "--sizes");
  says({"run", "--lanes", "0"}, 2, "--lanes");
  says({"run", "--csv", "/nonexistent/rows.csv"}, 2, "/nonexistent/rows.csv");
  says({"run", "--run-dir", "/tmp"}, 2, "--peer");
  says({"run", "--peer", "west", "--lanes", "2"}, 2, "--lanes");
  says({"run", "--peer", "west", "--slots", "8"}, 2, "--slots");
  says({"run", "--slots", "3"}, 2, "--slots");
  says({"run", "--slot-size", "much"}, 2, "much");
  says({"run", "--tuned", "/nonexistent/tuned.toml"}, 3, "/nonexistent/tuned.toml");
  says({"run", "--peer", "west", "--run-dir", "/nonexistent"}, 5, "/nonexistent");
  says({"lend", "--size", "0"}, 2, "--size");
  says({"lend", "--run-dir", "/nonexistent"}, 5, "/nonexistent");
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
