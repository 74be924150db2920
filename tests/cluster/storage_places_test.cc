// Where slots and threads of a file's move are, on a machine with several NUMA nodes, as a topology
// file has it; and that with one nothing is any different.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "transport/os/machine/numa.h"

namespace storage_places_test {
namespace {

using namespace onecopy::testing;
namespace os = onecopy::os;

// More than the slots hold, and no whole number of anything.
constexpr uint64_t kBytes = (uint64_t{70} << 20) + 4097;

// The last of this machine's processors that a daemon may use.
std::string OneProcessor() { return std::to_string(os::ParseCpuList(os::AllowedCpus())->back()); }

// The drive of the folder's file system by its number, on NUMA node `drive`; the fake driver's GPUs
// (cuda:0 is 0000:b1:00.0) on nodes 0 and 1.
std::string Topology(const TempFolder& folder, int drive, int second_gpu) {
  struct stat status {};
  REQUIRE(::stat(folder.path().c_str(), &status) == 0);
  const std::string number =
      std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev));
  const auto device = [](const std::string& kind, const std::string& name, int node) {
    return "[[device]]\nkind = \"" + kind + "\"\n" + name +
           "\nnuma_node = " + std::to_string(node) + "\ncpus = \"" + OneProcessor() + "\"\n";
  };
  WriteFile(folder / "topology.toml", "version = 1\ndefault_distance = \"SYS\"\n" +
                                          device("gpu", "address = \"0000:b1:00.0\"", 0) +
                                          device("gpu", "address = \"0000:c1:00.0\"", second_gpu) +
                                          device("nvme", "name = \"" + number + "\"", drive));
  return folder / "topology.toml";
}

struct Machine {
  Machine(int drive, int second_gpu)
      : node("east", {.config = "topology = \"" + Topology(folder, drive, second_gpu) +
                                "\"\n[libraries]\ncuda = \"" + FakeCudaPath() + "\"\n"}) {
    WriteFile(folder / "in", payload);
    for (const std::string gpu : {"0", "1"}) {
      node.Do({"buffer", "create", "g" + gpu, "--size", std::to_string(kBytes), "--memory",
               "cuda:" + gpu});
    }
    node.Do({"buffer", "create", "h", "--size", std::to_string(kBytes)});
  }

  // Into that buffer and out again, byte for byte.
  Json In(const std::string& buffer) const {
    const Json receipt = node.Do({"cp", folder / "in", buffer, "--checksum"});
    CHECK(receipt.at("checksum").at("verified") == true);
    return receipt;
  }
  Json Out(const std::string& buffer) const {
    const Json receipt = node.Do({"cp", buffer, folder / "out"});
    CHECK(ReadFile(folder / "out") == payload);
    return receipt;
  }
  // Where the daemon's threads of that name may run.
  std::set<std::string> ProcessorsOf(const std::string& name) {
    std::set<std::string> lists;
    const std::string tasks = "/proc/" + std::to_string(node.process().pid()) + "/task";
    for (const auto& task : std::filesystem::directory_iterator(tasks)) {
      std::string is;
      std::getline(std::ifstream(task.path() / "comm") >> std::ws, is);
      std::ifstream status(task.path() / "status");
      constexpr std::string_view kKey = "Cpus_allowed_list:\t";
      for (std::string line; is == name && std::getline(status, line);) {
        if (line.starts_with(kKey)) lists.insert(line.substr(kKey.size()));
      }
    }
    return lists;
  }

  TempFolder folder;
  std::string payload = Payload(kBytes, 7);
  Node node;
};

std::string Evidence(const Json& receipt, const std::string& key) {
  return receipt.at("evidence").value(key, "");
}

bool Has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("slots are near to the GPU, and threads to the drive, which are apart") {
  Machine machine(1, 1);
  for (const Json& receipt : {machine.In("g0"), machine.Out("g0")}) {
    INFO(receipt.dump(2));
    CHECK(receipt.at("path") == "storage-bounce");
    const std::string placement = Evidence(receipt, "placement");
    CHECK(placement.starts_with("slots on NUMA node 0, near GPU-"));
    CHECK(Has(placement, ", which is equally far from the drive: "));
    CHECK(Has(placement, "; seen to lie on NUMA node 0"));
    CHECK(Has(Evidence(receipt, "storage"),
              ", threads kept on processors " + OneProcessor() + " of NUMA node 1"));
  }
  // Both on node 1, which the machine below has not: it is wanted, and what became of it is told.
  const Json together = machine.In("g1");
  INFO(together.dump(2));
  CHECK(Evidence(together, "placement").starts_with("slots on NUMA node 1, near GPU-"));
  CHECK(Has(Evidence(together, "placement"), " and the drive: "));
  CHECK(Has(Evidence(together, "placement"), "; seen to lie on NUMA node "));
  CHECK(Contents(machine.node, "g1") == machine.payload);
  machine.Out("g1");
  // One lane opens files, anywhere; the other one moves them.
  const std::set<std::string> lanes = machine.ProcessorsOf("store");
  CHECK(lanes == std::set<std::string>{os::AllowedCpus(), OneProcessor()});
}

TEST_CASE("explain says where slots will be, and node show where a drive is") {
  Machine machine(1, 1);
  const Json plan = machine.node.Do({"explain", machine.folder / "in", "g0"});
  CHECK(plan.at("placement").get<std::string>().starts_with("slots on NUMA node 0, near GPU-"));
  const CommandResult text = RunCommand(
      "onecopy", {"--run-dir", machine.node.run_dir(), "explain", machine.folder / "in", "g0"});
  CHECK(Has(text.out, "  placement slots on NUMA node 0, near GPU-"));
  CHECK(machine.node.Do({"explain", machine.folder / "in", "h"}).at("placement") == "");
  // Host memory needs no slots, and its file's threads are near to the drive all the same.
  const Json host = machine.In("h");
  CHECK(Evidence(host, "placement").empty());
  CHECK(Has(Evidence(host, "storage"), " of NUMA node 1"));
  std::string mounts;
  const Json shown = machine.node.Do({"node", "show"});
  for (const Json& store : shown.at("stores")) {
    if (store.at("name") == "posix") mounts = store.at("attributes").dump();
  }
  CHECK(Has(mounts, "; drive: "));
  CHECK(Has(mounts, "(NUMA node 1)"));
}

TEST_CASE("with one NUMA node receipts are what they are where nobody knows any place") {
  Machine one(0, 0);
  WriteFile(one.folder / "nothing.toml", "version = 1\n");
  const Node unknown("west", {.config = "topology = \"" + (one.folder / "nothing.toml") +
                                        "\"\n[libraries]\ncuda = \"" + FakeCudaPath() + "\"\n"});
  unknown.Do({"buffer", "create", "g0", "--size", std::to_string(kBytes), "--memory", "cuda:0"});
  unknown.Do({"buffer", "create", "h", "--size", std::to_string(kBytes)});
  for (const std::string buffer : {"g0", "h"}) {
    const Json here = one.In(buffer);
    const Json there = unknown.Do({"cp", one.folder / "in", buffer, "--checksum"});
    INFO(here.dump(2));
    INFO(there.dump(2));
    CHECK(here.at("evidence") == there.at("evidence"));
    REQUIRE(here.at("steps").size() == there.at("steps").size());
    for (size_t i = 0; i < here.at("steps").size(); ++i) {
      for (const char* key : {"from", "to", "by", "bytes"}) {
        CHECK(here.at("steps")[i].at(key) == there.at("steps")[i].at(key));
      }
    }
  }
  CHECK(one.ProcessorsOf("store") == std::set<std::string>{os::AllowedCpus()});
}
}  // namespace storage_places_test
