// What a daemon's probes prove.
#include "client/doctor/diagnose.h"
#include "client/doctor/gather_parts.h"
#include "tests/support/catch.h"
#include "tests/unit/doctor/healthy.h"

using namespace onecopy;
using namespace onecopy::doctor;

namespace {

using std::chrono::hours;

const WallTime kNow{hours(500'000)};

NodeCapability MakeNode(const std::string& name) {
  NodeCapability node;
  node.node = name;
  node.host = "host of " + name;
  for (const char* link_name : {"verbs", "ucx"}) {
    LinkCapability link;
    link.name = link_name;
    link.rdma = true;
    for (const char* nic_name : {"mlx5_0", "mlx5_1"}) {
      NicCapability nic;
      nic.name = nic_name;
      nic.bytes_per_second = 50'000'000'000;
      link.nics.push_back(nic);
    }
    node.links.push_back(link);
  }
  LinkCapability tcp;
  tcp.name = "tcp";
  node.links.push_back(tcp);
  return node;
}

ProbeInfo MakeProbe(const std::string& link, const std::string& nic) {
  ProbeInfo probe;
  probe.node = "west";
  probe.link = link;
  probe.source_memory = probe.destination_memory = "cuda";
  probe.source_nic = probe.destination_nic = nic;
  probe.bytes_per_second = 45e9;
  probe.time = kNow - hours(1);
  probe.expire_time = kNow + hours(1);
  return probe;
}

struct Pair {
  NodeCapability own = MakeNode("east");
  NodeInfo west;
  std::vector<TransferInfo> transfers;

  Pair() {
    west.name = "west";
    west.state = NodeState::kConnected;
    west.capabilities = MakeNode("west");
    west.probes = {MakeProbe("verbs", "mlx5_0")};
  }

  std::vector<Probe> Probes() const { return ProbesFrom(west, own, transfers, kNow); }

  bool Works() const {
    Facts facts = HealthyFacts();
    facts.probes = Probes();
    return Diagnose(facts).works;
  }
};

}  // namespace

TEST_CASE("a pair of devices that moved GPU memory is proof, with what its ports do") {
  const Pair pair;
  const std::vector<Probe> probes = pair.Probes();
  REQUIRE(probes.size() == 1);
  CHECK(probes[0].peer == "west");
  CHECK_FALSE(probes[0].emulated);
  CHECK(probes[0].bytes_per_second == 45'000'000'000);
  CHECK(probes[0].expected_bytes_per_second == 50'000'000'000);
  CHECK_FALSE(probes[0].used);
  CHECK(pair.Works());
}

TEST_CASE("all lanes together are proof where every device is hardware") {
  Pair pair;
  pair.west.probes = {MakeProbe("verbs", "")};
  REQUIRE(pair.Probes().size() == 1);
  CHECK(pair.Probes()[0].expected_bytes_per_second == 0);
  CHECK(pair.Works());
  pair.own.links[0].nics[1].emulated = true;
  CHECK_FALSE(pair.Works());
  pair.own.links[0].nics[1].viability = Viability::No("LINK_DOWN", "down");  // not used
  CHECK(pair.Works());
  pair.own.links[0].nics.clear();
  CHECK_FALSE(pair.Works());
}

TEST_CASE("software at either end is no proof, nor is a device that nobody describes") {
  Pair here;
  here.own.links[0].nics[0].emulated = true;
  CHECK_FALSE(here.Works());
  Pair there;
  there.west.capabilities->links[0].nics[0].emulated = true;
  CHECK_FALSE(there.Works());
  Pair unknown;
  unknown.west.probes = {MakeProbe("verbs", "mlx5_7")};
  CHECK_FALSE(unknown.Works());
}

TEST_CASE("what went over no RDMA, or no longer counts, is no proof") {
  Pair sockets;
  sockets.west.probes = {MakeProbe("tcp", "")};
  CHECK(sockets.Probes().empty());
  Pair inside;  // UCX takes cuda_ipc between two daemons of one machine
  inside.west.probes = {MakeProbe("ucx", "mlx5_0")};
  CHECK(inside.Works());
  inside.west.capabilities->host = inside.own.host;
  CHECK(inside.Probes().empty());
  Pair old;
  old.west.probes[0].expire_time = kNow;
  CHECK(old.Probes().empty());
  Pair loopback;
  loopback.west.self = true;
  REQUIRE(loopback.Probes().size() == 1);
  CHECK(loopback.Probes()[0].peer.empty());
  CHECK_FALSE(loopback.Works());
}

TEST_CASE("a failed probe keeps its reason") {
  Pair pair;
  pair.west.probes[0].viability = Viability::No("GPU_NOT_PINNABLE", "EOPNOTSUPP");
  pair.west.probes[0].bytes_per_second = 0;
  REQUIRE(pair.Probes().size() == 1);
  CHECK(pair.Probes()[0].detail == "EOPNOTSUPP");
  CHECK_FALSE(pair.Works());
}

TEST_CASE("devices that carried lanes of a transfer are the ones in use") {
  Pair pair;
  pair.west.probes = {MakeProbe("verbs", "mlx5_0"), MakeProbe("verbs", "mlx5_1")};
  pair.west.probes[0].bytes_per_second = 12e9;
  TransferInfo transfer;
  transfer.source.node = "west";
  transfer.receipt.link = "verbs";
  transfer.receipt.lanes = {{"mlx5_0", "west", 4096}};
  pair.transfers = {transfer};
  const std::vector<Probe> probes = pair.Probes();
  REQUIRE(probes.size() == 2);
  CHECK(probes[0].used);
  CHECK_FALSE(probes[1].used);
  Facts facts = HealthyFacts();
  facts.probes = probes;
  const Diagnosis diagnosis = Diagnose(facts);
  REQUIRE(diagnosis.Find("SLOWER_NIC_USED") != nullptr);
  CHECK(diagnosis.Find("SLOWER_NIC_USED")->evidence.find("45 GB/s") != std::string::npos);
  CHECK(diagnosis.Find("PROBE_BELOW_EXPECTATION") != nullptr);
}
