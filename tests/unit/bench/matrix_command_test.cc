// `onecopy-bench matrix` as its user runs it, on the fake driver and with a real daemon.
#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"
#include "tests/support/text.h"

namespace onecopy::testing {
namespace {

using Json = nlohmann::json;

struct Ran {
  int exit_status = 0;
  std::string out;  // with what it says on stderr
};

Ran RunMatrix(std::vector<std::string> arguments, const std::vector<std::string>& environment = {},
              const std::string& cuda = FakeCudaPath()) {
  arguments.insert(arguments.begin(),
                   {"-c", "exec \"$0\" \"$@\" 2>&1", ProgramFolder() / "onecopy-bench", "matrix",
                    "--cuda", cuda});
  Process process({.program = "/bin/sh", .arguments = arguments, .environment = environment});
  Ran ran;
  ran.out = process.ReadAll();
  ran.exit_status = process.Wait();
  return ran;
}

struct Measured {
  Ran ran;
  Json document;
};

Measured MeasureOn(const std::vector<std::string>& environment) {
  const TempFolder folder;
  Measured measured;
  measured.ran =
      RunMatrix({"--size", "1MiB", "--samples", "1", "--json", folder / "m.json"}, environment);
  INFO(measured.ran.out);
  measured.document = Json::parse(ReadFile(folder / "m.json"));
  return measured;
}

TEST_CASE("matrix prints and writes what it measures, by plain CUDA and by a daemon") {
  const auto [ran, document] = MeasureOn({});
  INFO(ran.out << document.dump(2));
  // The fake driver refuses to stage a copy between GPUs without peer access.
  CHECK(ran.exit_status == 1);
  CHECK(Has(ran.out, "2 GPUs, CUDA 13.0\n"));
  CHECK(Has(ran.out, "Plain CUDA, one way, P2P on (GB/s)\n"));
  CHECK(document.at("timed_by") == "events");
  CHECK(document.at("driver_version").is_null());
  REQUIRE(document.at("pairs").size() == 4);
  for (const Json& pair : document.at("pairs")) {
    const bool inside = pair.at("from") == pair.at("to");
    CHECK(pair.at("onecopy_path") == (inside ? "local" : "peer-direct"));
    for (const char* key : {"p2p_on_one_way_bytes_per_second", "p2p_on_both_ways_bytes_per_second",
                            "p2p_on_latency_seconds", "through_host_bytes_per_second",
                            "onecopy_bytes_per_second", "onecopy_latency_seconds"}) {
      INFO(key);
      CHECK(pair.at(key) > 0);
    }
    CHECK(pair.at("missing").size() == (inside ? 0 : 3));
    if (inside) continue;
    CHECK(pair.at("missing").at("p2p_off_latency_seconds").at("reason") == "DRIVER_FAILED");
  }
}

TEST_CASE("matrix names pairs without P2P, and the path that the daemon takes between them") {
  const auto [ran, document] = MeasureOn({"FAKE_CUDA_NO_PEER=1"});
  INFO(ran.out << document.dump(2));
  CHECK(Has(ran.out, "no P2P: GPU-"));
  const Json& pair = document.at("pairs").at(1);
  CHECK(pair.at("p2p_on_one_way_bytes_per_second").is_null());
  CHECK(pair.at("missing").at("p2p_on_one_way_bytes_per_second").at("reason") == "NO_PEER_ACCESS");
  CHECK(pair.at("onecopy_path") == "peer-bounce");
  CHECK(pair.at("onecopy_bytes_per_second") > 0);
}

TEST_CASE("matrix of one GPU has one cell, and is a success") {
  const auto [ran, document] = MeasureOn({"FAKE_CUDA_DEVICES=1"});
  INFO(ran.out);
  CHECK(ran.exit_status == 0);
  CHECK(Has(ran.out, "1 GPU, CUDA 13.0\n"));
  REQUIRE(document.at("pairs").size() == 1);
  CHECK(document.at("pairs").at(0).at("missing").empty());
}

TEST_CASE("a signal ends matrix after the sample under way, and what was measured is printed") {
  Process process({.program = "/bin/sh",
                   .arguments = {"-c", "exec \"$0\" \"$@\" 2>&1", ProgramFolder() / "onecopy-bench",
                                 "matrix", "--cuda", FakeCudaPath(), "--samples", "1000"}});
  CHECK(Has(process.ReadLine(), "plain CUDA, P2P off and through the host: 0 -> 0"));
  process.Signal(SIGINT);
  const std::string out = process.ReadAll();
  INFO(out);
  CHECK(process.Wait() == 130);
  CHECK(Has(out, "from\\to         0         1\n      0         -         -\n"));
}

TEST_CASE("matrix without a GPU or a driver is one error") {
  const Ran no_gpu = RunMatrix({}, {"FAKE_CUDA_DEVICES=0"});
  INFO(no_gpu.out);
  CHECK(no_gpu.exit_status == 7);
  CHECK(Has(no_gpu.out, "shows no GPU"));
  const Ran no_driver = RunMatrix({}, {}, "/nonexistent/libcuda.so");
  INFO(no_driver.out);
  CHECK(no_driver.exit_status == 7);
  CHECK(Has(no_driver.out, "/nonexistent/libcuda.so"));
  CHECK_FALSE(Has(no_driver.out, "from\\to"));
}

TEST_CASE("matrix refuses arguments that it cannot measure with") {
  const auto refused = [](const std::vector<std::string>& arguments, const std::string& what) {
    const Ran ran = RunMatrix(arguments);
    INFO(ran.out);
    CHECK(ran.exit_status == 2);
    CHECK(Has(ran.out, what));
  };
  refused({"--size", "0"}, "--size must be at least 1");
  refused({"--size", "2GiB"}, "--size 2 GiB is too large: 4 buffers");
  refused({"--size", "much"}, "much");
  refused({"--samples", "0"}, "--samples");
  refused({"--json", "/nonexistent/m.json"}, "/nonexistent/m.json cannot be written");
}

}  // namespace
}  // namespace onecopy::testing
