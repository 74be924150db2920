// Topologies that people write.
#include "transport/topology/topology_file.h"

#include <fstream>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

using namespace onecopy;

namespace {

constexpr char kGood[] = R"(version = 1
default_distance = "SYS"

[[device]]
kind = "gpu"
address = "00000000:10:1C.0"
numa_node = 0
cpus = "0-23,48-71"

[[device]]
kind = "nic"
name = "rdmap0"
address = "0000:10:1b.0"

[[device]]
kind = "nic"
name = "rxe0"
emulated = true

[[device]]
kind = "nvme"
name = "nvme1n1"

[[distance]]
between = ["10:1c.0", "rdmap0"]
is = "PIX"
)";

}  // namespace

TEST_CASE("a file's devices and distances") {
  const auto topology = ParseTopologyFile(kGood, "topology.toml");
  REQUIRE_OK(topology);
  REQUIRE(topology->devices.size() == 4);
  CHECK(topology->devices[0] ==
        TopologyDevice{DeviceKind::kGpu, "0000:10:1c.0", "0000:10:1c.0", 0, "0-23,48-71", false});
  CHECK(topology->Between("0000:10:1c.0", "rdmap0") == Distance::kSameSwitch);
  CHECK(topology->Between("0000:10:1c.0", "nvme1n1") == Distance::kSystem);
  CHECK(topology->Between("0000:10:1c.0", "rxe0") == Distance::kUnknown);
  CHECK_FALSE(topology->virtual_machine);
  CHECK(topology->source == "topology.toml");
}

TEST_CASE("everything that is wrong is told with its line") {
  struct Case {
    std::string text;
    std::string says;
  };
  const std::vector<Case> cases = {
      {"", "t:1: version must be 1"},
      {"version = 2\n", "t:1: version must be 1"},
      {"version = 1\nspeed = 3\n", "t:2: speed is not a key"},
      {"version = 1\ndefault_distance = \"near\"\n", "t:2: default_distance must be PIX"},
      {"version = 1\ndevice = 3\n", "t:2: device must be written as [[device]]"},
      {"version = 1\n[[device]]\nkind = \"fpga\"\nname = \"a\"\n", "t:3: kind must be"},
      {"version = 1\n[[device]]\nname = \"a\"\n", "t:2: kind must be"},
      {"version = 1\n[[device]]\nkind = \"nic\"\n", "t:2: a device needs a name"},
      {"version = 1\n[[device]]\nkind = \"nic\"\naddress = \"x\"\n", "t:4: address must be"},
      {"version = 1\n[[device]]\nkind = \"nic\"\nname = \"a\"\nnuma_node = 5000\n",
       "t:5: numa_node must be"},
      {"version = 1\n[[device]]\nkind = \"nic\"\nname = \"a\"\ncolour = 1\n",
       "t:5: device has no key colour"},
      {"version = 1\n[[device]]\nkind = \"nic\"\nname = \"a\"\n[[device]]\nkind = \"nic\"\nname = "
       "\"a\"\n",
       "t:5: there is a device a already"},
      {"version = 1\n[[device]]\nkind = \"nic\"\nname = 7\n", "t:4: name must be a text"},
      {"version = 1\n[[device]]\nkind = \"nic\"\nname = \"a\"\n[[distance]]\nis = \"PIX\"\n",
       "t:5: a distance needs"},
      {"version = 1\n[[device]]\nkind = \"nic\"\nname = \"a\"\n[[distance]]\nbetween = [\"a\", "
       "\"b\"]\nis = \"PIX\"\n",
       "t:6: there is no device \"b\" above"},
      {"version = 1\n[[device]]\nkind = \"nic\"\nname = \"a\"\n[[distance]]\nbetween = [\"a\", "
       "\"a\"]\nis = \"PIX\"\n",
       "t:6: between must name two different devices"},
      {"version = 1\n[[distance]]\nbetween = \"a\"\nis = \"PIX\"\n", "t:3: between must be a list"},
      {"version = [\n", "t:"},
  };
  for (const Case& c : cases) {
    const Status status = ParseTopologyFile(c.text, "t").status();
    INFO(c.text << " -> " << status.ToString());
    CHECK(status.reason() == reasons::kBadConfig);
    CHECK(status.message().find(c.says) != std::string::npos);
  }
}

TEST_CASE("all of what is wrong is told at once") {
  const Status status = ParseTopologyFile("version = 1\na = 1\nb = 2\n", "t").status();
  CHECK(status.message().find("t:2:") != std::string::npos);
  CHECK(status.message().find("t:3:") != std::string::npos);
}

TEST_CASE("more devices than any machine has are refused") {
  std::string text = "version = 1\n";
  for (size_t i = 0; i <= Topology::kMaxDevices; ++i) {
    text += "[[device]]\nkind = \"nic\"\nname = \"n" + std::to_string(i) + "\"\n";
  }
  const Status status = ParseTopologyFile(text, "t").status();
  CHECK(status.message().find("more than 256 devices") != std::string::npos);
}

TEST_CASE("a file is read, and one that is not there is not found") {
  testing::TempFolder folder;
  std::ofstream(folder / "topology.toml") << kGood;
  const auto topology = LoadTopology(folder / "topology.toml");
  REQUIRE_OK(topology);
  CHECK(topology->source == folder / "topology.toml");
  CHECK(LoadTopology(folder / "absent").status().code() == Code::kNotFound);
}
