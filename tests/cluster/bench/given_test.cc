// The bench between daemons that run already, as on a real cluster.
#include <signal.h>

#include <map>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/node.h"

namespace onecopy::testing {
namespace {

using Words = std::vector<std::string>;

struct Cluster {
  explicit Cluster(const std::string& config = {})
      : west("west", {.config = config}),
        east("east", {.peers = {west.AsPeer()}, .config = config}) {
    east.WaitForPeer("west");
  }

  CommandResult Bench(Words arguments) const {
    arguments.insert(arguments.begin(), {"run", "--peer", "west", "--run-dir", east.run_dir()});
    return RunCommand("onecopy-bench", arguments);
  }

  // The rows of a run, by work.
  std::map<std::string, Json> Rows(Words arguments) const {
    const TempFolder folder;
    arguments.insert(arguments.end(), {"--json", folder / "rows.json"});
    const CommandResult result = Bench(arguments);
    INFO(result.err << result.out);
    REQUIRE(result.exit_status <= 1);
    std::map<std::string, Json> rows;
    for (const Json& row : Json::parse(ReadFile(folder / "rows.json"))) rows[row.at("work")] = row;
    return rows;
  }

  Node west;
  Node east;
};

// `onecopy-bench lend`, from when it has lent.
class MemoryExporter {
 public:
  explicit MemoryExporter(const Node& node, const std::string& size = "2MiB")
      : process_({.program = "onecopy-bench",
                  .arguments = {"lend", "--run-dir", node.run_dir(), "--size", size}}) {
    for (std::string line; line.rfind("until ", 0) != 0;) {
      line = process_.ReadLine();
      said_ += line;
    }
  }
  const std::string& said() const { return said_; }
  int Stop(int signal) {
    process_.Signal(signal);
    return process_.Wait();
  }

 private:
  Process process_;
  std::string said_;
};

TEST_CASE("works run between given daemons, and leave nothing there") {
  const Cluster cluster;
  MemoryExporter exporter(cluster.west);
  CHECK(cluster.west.Do({"buffer", "ls"}).size() == 1);
  const auto rows = cluster.Rows({"--size", "1MiB", "--samples", "2"});
  for (const char* work : {"tcp host to host", "tcp host to host, staged", "local host to host"}) {
    const Json& row = rows.at(work);
    INFO(row.dump(2));
    CHECK(row.at("verified") == true);
    CHECK(row.at("samples") == 8);
    CHECK(row.at("ratio") > 0);  // loopback, so that this machine's sockets are a ceiling
  }
  CHECK(rows.at("register host memory").at("status") == "OK");
  CHECK(rows.at("first byte, between nodes").at("status") == "OK");
  for (const char* work :
       {"cpu tcp host to host", "idle cpu", "ready", "daemon memory", "competitor", "ingest"}) {
    INFO(work);
    CHECK(rows.at(work).at("status") == "WAIVED");
    CHECK(rows.at(work).at("reason") == "NOT_APPLICABLE");
  }
  CHECK(rows.at("tcp gpu to gpu").at("status") == "WAIVED");
  CHECK(cluster.east.Do({"buffer", "ls"}).empty());
  CHECK(cluster.west.Do({"buffer", "ls"}).size() == 1);
  CHECK(exporter.Stop(SIGINT) == 0);
  CHECK(cluster.west.Do({"buffer", "ls"}).empty());
}

TEST_CASE("GPU memory is lent and used, too, and goes again") {
  const Cluster cluster("[libraries]\ncuda = \"" + FakeCudaPath() + "\"\n");
  MemoryExporter exporter(cluster.west);
  CHECK(exporter.said().find("onecopy-bench-gpu1") != std::string::npos);
  const auto rows = cluster.Rows(
      {"--filter", "*gpu to *", "--size", "1MiB", "--samples", "1", "--cuda", FakeCudaPath()});
  for (const char* work : {"tcp gpu to gpu", "tcp gpu to host", "peer gpu to gpu",
                           "peer gpu to gpu, bounced", "local gpu to host"}) {
    INFO(work << rows.at(work).dump(2));
    CHECK(rows.at(work).at("verified") == true);
  }
  CHECK(cluster.east.Do({"buffer", "ls"}).empty());
  CHECK(exporter.Stop(SIGTERM) == 0);
  CHECK(cluster.west.Do({"buffer", "ls"}).empty());
}

TEST_CASE("without memory that was lent, or with too little, works say what to do") {
  const Cluster cluster;
  const auto none = cluster.Rows({"--filter", "tcp host to host", "--size", "4MiB"});
  CHECK(none.at("tcp host to host").at("status") == "WAIVED");
  CHECK(none.at("tcp host to host").at("reason") == "BUFFER_NOT_FOUND");
  const std::string detail = none.at("tcp host to host").at("detail");
  CHECK(detail.find("onecopy-bench lend --size 4194304") != std::string::npos);
  const MemoryExporter exporter(cluster.west, "1MiB");
  const auto little = cluster.Rows({"--filter", "tcp host to host", "--size", "4MiB"});
  CHECK(little.at("tcp host to host").at("status") == "WAIVED");
  CHECK(little.at("tcp host to host").at("reason") == "NO_MEMORY");
}

TEST_CASE("a lender whose daemon goes ends and says so") {
  Node west("west");
  Process exporter({.program = "onecopy-bench",
                    .arguments = {"lend", "--run-dir", west.run_dir(), "--size", "1MiB"},
                    .error_file = west.folder() / "lender"});
  while (exporter.ReadLine().rfind("until ", 0) != 0) {
  }
  west.Kill();
  CHECK(exporter.Wait() == 5);
  CHECK(ReadFile(west.folder() / "lender").find("onecopy-bench: ") == 0);
}

TEST_CASE("a peer that is not there is one clear error, and nothing is measured") {
  const Node north("north");
  Node east("east", {.peers = {"west=" + north.address(), "south=127.0.0.1:1"}});
  const auto says = [&](const std::string& peer, int exit_status, const std::string& what) {
    const CommandResult result =
        RunCommand("onecopy-bench", {"run", "--peer", peer, "--run-dir", east.run_dir()});
    INFO(result.err);
    CHECK(result.exit_status == exit_status);
    CHECK(result.err.find(what) != std::string::npos);
    CHECK(result.out.empty());
  };
  says("nobody", 3, "nobody");
  says("east", 2, "east");
  says("south", 5, "south is DISCONNECTED");
  east.WaitForPeer("west", "INCOMPATIBLE");  // it is another node than the one that was named
  says("west", 5, "west is INCOMPATIBLE");
}

}  // namespace
}  // namespace onecopy::testing
