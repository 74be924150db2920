// A topology from a file, on its way through configuration, hello and command line; and the doctor
// beside daemons.
#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/node.h"

namespace topology_test {
namespace {

using namespace onecopy;
using namespace onecopy::testing;

constexpr char kTopology[] = R"(version = 1
default_distance = "SYS"
[[device]]
kind = "gpu"
address = "0000:10:1c.0"
numa_node = 1
cpus = "4-7"
[[device]]
kind = "nic"
name = "rdmap0"
address = "0000:10:1b.0"
[[device]]
kind = "nvme"
name = "nvme0n1"
[[distance]]
between = ["rdmap0", "10:1c.0"]
is = "PIX"
)";

std::string Write(const TempFolder& folder, const std::string& text) {
  std::ofstream(folder / "topology.toml") << text;
  return folder / "topology.toml";
}

}  // namespace

TEST_CASE("a node shows the topology of its file, and its peers see it too") {
  TempFolder folder;
  const std::string file = Write(folder, kTopology);
  Node east("east", {.config = "topology = \"" + file + "\"\n"});
  Node west("west", {.peers = {east.AsPeer()}});
  west.WaitForPeer("east");
  for (const Json& node : {east.Do({"node", "show"}), west.Do({"node", "show", "east"})}) {
    const Json& topology = node["topology"];
    CHECK(topology["source"] == file);
    CHECK(topology["virtual_machine"] == false);
    REQUIRE(topology["devices"].size() == 3);
    CHECK(topology["devices"][0]["name"] == "0000:10:1c.0");
    CHECK(topology["devices"][0]["numa_node"] == 1);
    CHECK(topology["devices"][0]["cpus"] == "4-7");
    CHECK(topology["devices"][1]["name"] == "rdmap0");
    CHECK(topology["distances"] == Json::parse(R"([["X", "PIX", "SYS"],
                                                   ["PIX", "X", "SYS"],
                                                   ["SYS", "SYS", "X"]])"));
  }
  // This machine's own account is west's.
  CHECK(west.Do({"node", "show"})["topology"]["source"] == "hwloc");
}

TEST_CASE("a topology file that is wrong is told with its line, and no daemon starts on it") {
  TempFolder folder;
  const std::string file =
      Write(folder, "version = 1\n[[device]]\nkind = \"fpga\"\nname = \"a\"\n");
  const std::string config = folder / "onecopyd.toml";
  std::ofstream(config) << "version = 1\ntopology = \"" << file << "\"\n";
  const CommandResult checked = RunCommand("onecopyd", {"config", "check", config});
  CHECK(checked.exit_status == 2);
  CHECK(checked.err.find(file + ":3: kind must be gpu, nic or nvme") != std::string::npos);
  const CommandResult started =
      RunCommand("onecopyd", {"--config", config, "--run-dir", folder / "run"});
  CHECK(started.exit_status == 2);
  CHECK(started.err.find(file + ":3:") != std::string::npos);
}

TEST_CASE("the doctor asks the daemon, its file and its peers, and believes no path unproven") {
  TempFolder folder;
  const std::string file = Write(folder, kTopology);
  Node east("east");
  Node west("west", {.peers = {east.AsPeer()}, .config = "topology = \"" + file + "\"\n"});
  west.WaitForPeer("east");
  const CommandResult doctor = west.Run({"doctor"});
  CHECK(doctor.exit_status == 7);
  CHECK(doctor.json["works"] == false);
  const Json& daemon = doctor.json["facts"]["daemon"];
  CHECK(daemon["answered"] == true);
  CHECK(daemon["node"] == "west");
  REQUIRE(daemon["peers"].size() == 1);
  CHECK(daemon["peers"][0]["name"] == "east");
  CHECK(daemon["peers"][0]["connected"] == true);
  CHECK(doctor.json["facts"]["topology"]["source"] == file);
  Json unproven;
  for (const Json& finding : doctor.json["findings"]) {
    if (finding["code"] == "NOT_PROVEN") unproven = finding;
  }
  REQUIRE_FALSE(unproven.is_null());
  CHECK(unproven["severity"] == "blocks");
  CHECK(unproven["remedy"].get<std::string>().find("onecopy probe") != std::string::npos);
}

}  // namespace topology_test
