// Every finding: there where its cause is, absent where all is well.
#include "client/doctor/diagnose.h"

#include <functional>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/unit/doctor/healthy.h"

using namespace onecopy;
using namespace onecopy::doctor;

namespace {

constexpr uint64_t kMiB = 1 << 20;

std::string Codes(const Diagnosis& diagnosis) {
  std::string text;
  for (const Finding& finding : diagnosis.findings) {
    text += (text.empty() ? "" : " ") + finding.code;
  }
  return text;
}

// One cause, on a node where all else is well.
struct Case {
  std::string code;
  Severity severity;  // without a probe that disproves it
  std::string seen;   // in the evidence
  std::function<void(Facts&)> spoil;
};

std::vector<Case> Cases() {
  using enum Severity;
  return {
      {"NO_RDMA_DEVICE", kBlocks, "/sys/class/infiniband",
       [](Facts& f) {
         f.nics.clear();
         f.device_files.clear();
       }},
      {"EMULATED_DEVICE_ONLY", kBlocks, "mlx5_0, mlx5_1",
       [](Facts& f) {
         for (Nic& nic : f.nics) nic.emulated = true;
       }},
      {"PORT_DOWN", kSlows, "mlx5_0 port 1 is DOWN",
       [](Facts& f) { f.nics[0].ports[0].state = "DOWN"; }},
      {"PORT_DOWN", kBlocks, "mlx5_1 port 1 is INIT",
       [](Facts& f) {
         f.nics.erase(f.nics.begin());
         f.nics[0].ports[0].state = "INIT";
       }},
      {"NO_ROCE_V2_GID", kSlows, "none of its 1 GIDs",
       [](Facts& f) { f.nics[1].ports[0].gids.pop_back(); }},
      {"NO_ROCE_V2_GID", kBlocks, "none of its 0 GIDs",
       [](Facts& f) {
         f.nics.erase(f.nics.begin());
         f.nics[0].ports[0].gids.clear();
       }},
      {"INFINIBAND_NOT_ACCESSIBLE", kBlocks, "/dev/infiniband/uverbs* does not",
       [](Facts& f) { f.device_files.clear(); }},
      {"INFINIBAND_NOT_ACCESSIBLE", kSlows, "uverbs1: Permission denied",
       [](Facts& f) { f.device_files[1].error = "Permission denied (EACCES)"; }},
      {"INFINIBAND_NOT_ACCESSIBLE", kBlocks, "uverbs0: Permission denied",
       [](Facts& f) {
         for (DeviceFile& file : f.device_files) file.error = "Permission denied (EACCES)";
       }},
      {"VERBS_LIBRARY_MISSING", kBlocks, "libibverbs.so.1",
       [](Facts& f) {
         f.verbs.found = false;
         f.verbs.detail = "the library libibverbs.so.1 cannot be opened";
       }},
      {"MEMLOCK_LIMIT", kBlocks, "64 KiB",
       [](Facts& f) {
         f.memlock = {true, false, 65536};
       }},
      {"MEMLOCK_LIMIT", kSlows, "64 MiB",
       [](Facts& f) {
         f.memlock = {true, false, 64 * kMiB};
       }},
      {"HUGE_PAGES_OFF", kSlows, "(never)", [](Facts& f) { f.huge_pages = "never"; }},
      {"NO_GPU", kBlocks, "no NVIDIA or AMD GPU",
       [](Facts& f) {
         f.gpus.clear();
         f.topology = {};
         f.driver = {false, "", std::string(reasons::kNoDriver), "libcuda.so.1 is missing", ""};
       }},
      {"NO_DRIVER", kBlocks, "libcuda.so.1 is missing",
       [](Facts& f) {
         f.driver = {false, "", std::string(reasons::kNoDriver), "libcuda.so.1 is missing", ""};
       }},
      {"NO_GPU", kBlocks, "the driver sees no GPU",
       [](Facts& f) {
         f.driver = {false, "", std::string(reasons::kNoGpu), "the driver sees no GPU", "look"};
       }},
      {"DRIVER_TOO_OLD", kBlocks, "CUDA 12.2",
       [](Facts& f) {
         f.driver = {false, "", std::string(reasons::kDriverTooOld), "supports CUDA 12.2", "new"};
       }},
      {"DRIVER_FAILED", kBlocks, "cuInit",
       [](Facts& f) {
         f.driver = {false, "", std::string(reasons::kDriverFailed), "cuInit: error 999", "look"};
       }},
      {"BAR1_TOO_SMALL", kSlows, "256 MiB of 80 GiB",
       [](Facts& f) { f.gpus[0].bar1_bytes = 256 * kMiB; }},
      {"PERSISTENCE_OFF", kSlows, "0000:9d:00.0", [](Facts& f) { f.gpus[1].persistence = false; }},
      {"P2P_DISABLED", kSlows, "0000:1b:00.0 and 0000:9d:00.0",
       [](Facts& f) { f.gpus[0].direct_peers.clear(); }},
      {"IOMMU_IN_THE_WAY", kSlows, "0000:18:00.0 DMA-FQ",
       [](Facts& f) { f.iommu[1].type = "DMA-FQ"; }},
      {"ACS_IN_THE_WAY", kSlows, "0000:15:01.0",
       [](Facts& f) { f.acs.redirecting = {"0000:15:01.0"}; }},
      {"ACS_NOT_CHECKED", kNote, "0000:15:01.0",
       [](Facts& f) { f.acs.unreadable = {"0000:15:01.0"}; }},
      {"GPU_NIC_ACROSS_SOCKETS", kSlows, "0000:9d:00.0",
       [](Facts& f) {
         // The second socket's NIC is gone.
         f.nics.pop_back();
         f.topology.devices.pop_back();
         f.topology.distances = {Distance::kSystem, Distance::kSameSwitch, Distance::kSystem};
       }},
      {"FLAT_VM_TOPOLOGY", kNote, "the cpu flag hypervisor",
       [](Facts& f) {
         f.topology.virtual_machine = true;
         f.virtual_machine = "the cpu flag hypervisor";
       }},
      {"UCX_WITHOUT_VERBS", kNote, "libuct_cuda",
       [](Facts& f) {
         f.ucx.verbs = false;
         f.ucx.modules = {"libuct_cuda"};
       }},
      {"UCX_WITHOUT_CUDA", kNote, "libuct_ib",
       [](Facts& f) {
         f.ucx.cuda = false;
         f.ucx.modules = {"libuct_ib"};
       }},
      {"MTU_MISMATCH", kSlows, "1024 bytes a packet, and eth1 has an MTU of 9000",
       [](Facts& f) { f.nics[1].ports[0].active_mtu = 1024; }},
      {"MTU_MISMATCH", kSlows, "1024 bytes a packet of the 4096",
       [](Facts& f) {
         f.nics[1].ports[0].active_mtu = 1024;
         f.nics[1].ports[0].netdev_mtu = 1500;
       }},
      {"MTU_MISMATCH", kSlows, "2048 bytes a packet of the 4096",
       [](Facts& f) { f.nics[0].ports[0].active_mtu = 2048; }},
  };
}

}  // namespace

TEST_CASE("a node on which all is well has no finding and works") {
  const Diagnosis diagnosis = Diagnose(HealthyFacts());
  CHECK(Codes(diagnosis).empty());
  CHECK(diagnosis.works);
  CHECK(diagnosis.proof.find("verbs moved GPU memory from west") == 0);
  CHECK(diagnosis.proof.find("48 GB/s") != std::string::npos);
}

TEST_CASE("without a daemon the path is not proven, and nothing else is found") {
  const Diagnosis diagnosis = Diagnose(HealthyFactsWithoutDaemon());
  CHECK(Codes(diagnosis) == "NOT_PROVEN");
  CHECK_FALSE(diagnosis.works);
  CHECK(diagnosis.findings[0].evidence.find("no daemon answers") == 0);
  CHECK(diagnosis.findings[0].remedy.find("onecopy probe") != std::string::npos);
}

TEST_CASE("each cause has its finding, with evidence and remedy") {
  for (const Case& c : Cases()) {
    Facts facts = HealthyFactsWithoutDaemon();
    c.spoil(facts);
    const Diagnosis diagnosis = Diagnose(facts);
    INFO(c.code << " among " << Codes(diagnosis));
    CHECK_FALSE(diagnosis.works);
    const Finding* finding = diagnosis.Find(c.code);
    REQUIRE(finding != nullptr);
    INFO(finding->evidence);
    CHECK(finding->severity == c.severity);
    CHECK(finding->evidence.find(c.seen) != std::string::npos);
    CHECK_FALSE(finding->remedy.empty());
  }
}

TEST_CASE("each cause has its finding alone") {
  for (const Case& c : Cases()) {
    Facts facts = HealthyFactsWithoutDaemon();
    c.spoil(facts);
    for (const Finding& finding : Diagnose(facts).findings) {
      INFO(c.code << " brings " << finding.code << ": " << finding.evidence);
      CHECK((finding.code == c.code || finding.code == "NOT_PROVEN"));
    }
  }
}

TEST_CASE("what blocks without a probe is a note where a probe got through") {
  for (const Case& c : Cases()) {
    Facts facts = HealthyFacts();
    c.spoil(facts);
    const Diagnosis diagnosis = Diagnose(facts);
    INFO(c.code << " among " << Codes(diagnosis));
    CHECK(diagnosis.works);
    const Finding* finding = diagnosis.Find(c.code);
    REQUIRE(finding != nullptr);
    CHECK(finding->severity == (c.severity == Severity::kBlocks ? Severity::kNote : c.severity));
  }
}

TEST_CASE("kernels whose mlx5 maps dma-bufs by small pages are named") {
  Facts facts = HealthyFactsWithoutDaemon();
  CHECK(Diagnose(facts).Find("DMABUF_SMALL_PAGES") == nullptr);  // of no driver that is known
  facts.nics[0].driver = "mlx5_core";
  facts.nics[1].driver = "bnxt_en";
  const Diagnosis diagnosis = Diagnose(facts);
  const Finding* finding = diagnosis.Find("DMABUF_SMALL_PAGES");
  REQUIRE(finding != nullptr);
  CHECK(finding->severity == Severity::kNote);
  CHECK(finding->evidence.find("mlx5_0 translate") != std::string::npos);

  const auto without = [&](const std::function<void(Facts&)>& change) {
    Facts changed = facts;
    change(changed);
    return Diagnose(changed).Find("DMABUF_SMALL_PAGES") == nullptr;
  };
  CHECK_FALSE(without([](Facts&) {}));
  CHECK(without([](Facts& f) {
    for (Gpu& gpu : f.gpus) gpu.dma_buf = false;
  }));
  CHECK(without([](Facts& f) { f.kernel.minor = 17; }));
  CHECK_FALSE(without([](Facts& f) { f.kernel.minor = 16; }));
  CHECK(without([](Facts& f) {
    f.kernel.major = 7;
    f.kernel.minor = 0;
  }));
  CHECK(without([](Facts& f) { f.kernel.major = 0; }));
}

TEST_CASE("dma-buf and nvidia_peermem: either is enough") {
  struct Way {
    std::string code;
    std::function<void(Facts&)> spoil;
  };
  const std::vector<Way> ways = {
      {"DMABUF_UNSUPPORTED_DRIVER", [](Facts& f) { f.gpus[0].dma_buf = false; }},
      {"DMABUF_UNSUPPORTED_KERNEL",
       [](Facts& f) {
         f.kernel.release = "5.10.0-8";
         f.kernel.major = 5;
         f.kernel.minor = 10;
       }},
      {"DMABUF_UNSUPPORTED_KERNEL",
       [](Facts& f) { f.kernel.options_off = {"CONFIG_DMA_SHARED_BUFFER"}; }}};
  for (const Way& way : ways) {
    INFO(way.code);
    Facts facts = HealthyFactsWithoutDaemon();
    way.spoil(facts);
    Diagnosis diagnosis = Diagnose(facts);
    REQUIRE(diagnosis.Find(way.code) != nullptr);
    CHECK(diagnosis.Find(way.code)->severity == Severity::kBlocks);
    REQUIRE(diagnosis.Find("PEERMEM_ABSENT") != nullptr);
    CHECK(diagnosis.Find("PEERMEM_ABSENT")->severity == Severity::kBlocks);

    facts.kernel.peermem = true;
    diagnosis = Diagnose(facts);
    REQUIRE(diagnosis.Find(way.code) != nullptr);
    CHECK(diagnosis.Find(way.code)->severity == Severity::kNote);
    CHECK(diagnosis.Find("PEERMEM_ABSENT") == nullptr);

    facts.kernel.peermem.reset();
    diagnosis = Diagnose(facts);
    REQUIRE(diagnosis.Find("PEERMEM_ABSENT") != nullptr);
    CHECK(diagnosis.Find("PEERMEM_ABSENT")->evidence.find("cannot be read") != std::string::npos);
  }
}

TEST_CASE("kernels from 5.12 on are new enough") {
  Facts facts = HealthyFactsWithoutDaemon();
  facts.kernel.major = 5;
  facts.kernel.minor = 12;
  CHECK(Codes(Diagnose(facts)) == "NOT_PROVEN");
  facts.kernel.major = 0;  // not known
  facts.kernel.minor = 0;
  CHECK(Codes(Diagnose(facts)) == "NOT_PROVEN");
}

TEST_CASE("in a virtual machine, IOMMU and bridges are the hypervisor's") {
  Facts facts = HealthyFactsWithoutDaemon();
  facts.virtual_machine = "the cpu flag hypervisor";
  facts.iommu[0].type = "DMA";
  facts.acs.redirecting = {"0000:00:01.0"};
  CHECK(Codes(Diagnose(facts)) == "NOT_PROVEN");
}

TEST_CASE("software devices' ports are nobody's business") {
  Facts facts = HealthyFactsWithoutDaemon();
  Nic rxe{"rxe0", "", true, {Port()}};
  rxe.ports[0].state = "DOWN";
  facts.nics.push_back(rxe);
  CHECK(Codes(Diagnose(facts)) == "NOT_PROVEN");
}

TEST_CASE("only GPU memory from a peer over hardware proves the path") {
  const auto evidence = [](const std::function<void(Facts&)>& change) {
    Facts facts = HealthyFacts();
    change(facts);
    const Diagnosis diagnosis = Diagnose(facts);
    INFO(Codes(diagnosis));
    CHECK_FALSE(diagnosis.works);
    const Finding* finding = diagnosis.Find("NOT_PROVEN");
    REQUIRE(finding != nullptr);
    CHECK(finding->severity == Severity::kBlocks);
    return finding->evidence;
  };
  CHECK(evidence([](Facts& f) { f.probes[0].emulated = true; }).find("emulated") !=
        std::string::npos);
  CHECK(evidence([](Facts& f) { f.probes[0].peer.clear(); }).find("within this node") !=
        std::string::npos);
  CHECK(evidence([](Facts& f) { f.probes[0].peer_memory = "host"; }).find("no probe") == 0);
  CHECK(evidence([](Facts& f) { f.probes[0].bytes_per_second = 0; }).find("no probe") == 0);
  CHECK(evidence([](Facts& f) { f.probes.clear(); }).find("no probe") == 0);
  CHECK(evidence([](Facts& f) {
          f.probes.clear();
          f.daemon.peers.clear();
        }).find("no peer") != std::string::npos);
}

TEST_CASE("a probe that failed says why") {
  Facts facts = HealthyFacts();
  facts.probes[0].viable = false;
  facts.probes[0].reason = "GPU_NOT_PINNABLE";
  facts.probes[0].detail = "ibv_reg_dmabuf_mr: EOPNOTSUPP";
  const Diagnosis diagnosis = Diagnose(facts);
  const Finding* finding = diagnosis.Find("PROBE_FAILED");
  REQUIRE(finding != nullptr);
  CHECK(finding->severity == Severity::kBlocks);
  CHECK(finding->evidence.find("EOPNOTSUPP") != std::string::npos);
  CHECK(diagnosis.Find("NOT_PROVEN") != nullptr);
}

TEST_CASE("a probe far below its ports is told") {
  Facts facts = HealthyFacts();
  facts.probes[0].bytes_per_second = 15'000'000'000;
  const Diagnosis diagnosis = Diagnose(facts);
  CHECK(diagnosis.works);
  const Finding* finding = diagnosis.Find("PROBE_BELOW_EXPECTATION");
  REQUIRE(finding != nullptr);
  CHECK(finding->severity == Severity::kSlows);
  CHECK(finding->evidence.find("15 GB/s") != std::string::npos);
  CHECK(finding->evidence.find("50 GB/s") != std::string::npos);
}

TEST_CASE("lanes on a slower NIC than there is are told") {
  Facts facts = HealthyFacts();
  facts.probes[0].bytes_per_second = 20'000'000'000;
  facts.probes[0].expected_bytes_per_second = 0;
  Probe faster = facts.probes[0];
  faster.nic = "mlx5_1";
  faster.used = false;
  faster.bytes_per_second = 48'000'000'000;
  facts.probes.push_back(faster);
  const Diagnosis slow = Diagnose(facts);
  const Finding* finding = slow.Find("SLOWER_NIC_USED");
  REQUIRE(finding != nullptr);
  CHECK(finding->evidence.find("mlx5_1") != std::string::npos);

  facts.probes[1].used = true;  // both carry lanes
  CHECK(Codes(Diagnose(facts)).empty());
}

TEST_CASE("a faster NIC that a link passes over is told with its reason") {
  Facts facts = HealthyFacts();
  NicCapability idle;
  idle.name = "mlx5_9";
  idle.bytes_per_second = 100'000'000'000;
  idle.viability = Viability::No("NOT_ALLOWED", "[rdma] devices leaves it out", "edit [rdma]");
  facts.daemon.capabilities.links[0].nics.push_back(idle);
  const Diagnosis diagnosis = Diagnose(facts);
  const Finding* finding = diagnosis.Find("SLOWER_NIC_USED");
  REQUIRE(finding != nullptr);
  CHECK(finding->evidence.find("mlx5_9 (100 GB/s)") != std::string::npos);
  CHECK(finding->evidence.find("[rdma] devices leaves it out") != std::string::npos);
  CHECK(finding->remedy == "edit [rdma]");
}

TEST_CASE("a port's MTU unlike a peer's is told once for the peer") {
  Facts facts = HealthyFacts();
  NodeCapability& here = facts.daemon.capabilities;
  NodeCapability& there = facts.daemon.peers[0].capabilities;
  there.links.push_back(here.links[0]);
  here.links[0].attributes = {{"mtu mlx5_0", "4096"}};
  there.links.back().attributes = {{"mtu mlx5_0", "4096"}};
  CHECK(Codes(Diagnose(facts)).empty());
  there.links.back().attributes = {{"mtu mlx5_0", "1024"}};
  const Diagnosis diagnosis = Diagnose(facts);
  CHECK(Codes(diagnosis) == "MTU_MISMATCH");
  CHECK(diagnosis.findings[0].evidence ==
        "mlx5_0 moves 4096 bytes a packet, and mlx5_0 of west 1024");
}

TEST_CASE("unlike versions of UCX are told for each peer") {
  Facts facts = HealthyFacts();
  facts.daemon.peers[0].capabilities.links[0].version = "1.13.1";
  const Diagnosis diagnosis = Diagnose(facts);
  const Finding* finding = diagnosis.Find("UCX_VERSIONS_UNLIKE");
  REQUIRE(finding != nullptr);
  CHECK(finding->severity == Severity::kSlows);
  CHECK(finding->evidence.find("1.17.0 here and 1.13.1 on west") != std::string::npos);
}

TEST_CASE("two daemons of one name and a discovery that fails are told") {
  Facts facts = HealthyFactsWithoutDaemon();
  facts.daemon.answered = true;
  facts.daemon.discovery.emplace().kind = "etcd";
  CHECK(Diagnose(facts).Find("NAME_TAKEN_TWICE") == nullptr);
  CHECK(Diagnose(facts).Find("DISCOVERY_FAILS") == nullptr);
  facts.daemon.conflicts = {{"east", "10.0.0.1:7701", "10.0.0.2:7701", "west"}};
  facts.daemon.discovery->viability =
      onecopy::Viability::No("IO_ERROR", "https://10.0.0.8:2379: no answer", "start it");
  const Diagnosis diagnosis = Diagnose(facts);
  const Finding* conflict = diagnosis.Find("NAME_TAKEN_TWICE");
  REQUIRE(conflict != nullptr);
  CHECK(conflict->severity == Severity::kBlocks);
  CHECK(conflict->evidence.find("10.0.0.2:7701 (seen by west)") != std::string::npos);
  const Finding* failing = diagnosis.Find("DISCOVERY_FAILS");
  REQUIRE(failing != nullptr);
  CHECK(failing->severity == Severity::kNote);
  CHECK(failing->remedy == "start it");
}

TEST_CASE("a daemon that does not do what its operator asked for says so") {
  Facts facts = HealthyFactsWithoutDaemon();
  facts.daemon.answered = true;
  CHECK(Diagnose(facts).Find("METRICS_NOT_SERVED") == nullptr);
  CHECK(Diagnose(facts).Find("NODE_DRAINS") == nullptr);
  facts.daemon.metrics = onecopy::Viability();
  CHECK(Diagnose(facts).Find("METRICS_NOT_SERVED") == nullptr);
  facts.daemon.metrics = onecopy::Viability::No("SWITCHED_OFF", "metrics_listen is \"off\"");
  CHECK(Diagnose(facts).Find("METRICS_NOT_SERVED") == nullptr);
  facts.daemon.metrics =
      onecopy::Viability::No("IO_ERROR", "127.0.0.1:9464 is taken", "choose one");
  facts.daemon.draining = true;
  CHECK(Diagnose(facts).Find("ADDRESS_SILENT") == nullptr);
  facts.daemon.silent_addresses = {{"west", "10.0.2.2:7702"}};
  const Diagnosis diagnosis = Diagnose(facts);
  const Finding* const silent = diagnosis.Find("ADDRESS_SILENT");
  REQUIRE(silent != nullptr);
  CHECK(silent->severity == Severity::kSlows);
  CHECK(silent->evidence.find("west does not answer at 10.0.2.2:7702") != std::string::npos);
  const Finding* finding = diagnosis.Find("METRICS_NOT_SERVED");
  REQUIRE(finding != nullptr);
  CHECK(finding->severity == Severity::kNote);
  CHECK(finding->evidence.find("127.0.0.1:9464 is taken") != std::string::npos);
  CHECK(finding->remedy == "choose one");
  REQUIRE(diagnosis.Find("NODE_DRAINS") != nullptr);
  CHECK(diagnosis.Find("NODE_DRAINS")->remedy.find("onecopy node undrain") != std::string::npos);
}

TEST_CASE("what blocks comes first") {
  Facts facts = HealthyFactsWithoutDaemon();
  facts.ucx.cuda = false;
  facts.gpus[0].persistence = false;
  CHECK(Codes(Diagnose(facts)) == "NOT_PROVEN PERSISTENCE_OFF UCX_WITHOUT_CUDA");
}

TEST_CASE("a certificate that ends is told in time, and one that has ended blocks") {
  using std::chrono::hours;
  Facts facts = HealthyFactsWithoutDaemon();
  facts.daemon.answered = true;
  facts.daemon.now = std::chrono::system_clock::now();
  const auto begun = facts.daemon.now - hours(300 * 24);
  const auto ends_in = [&](hours left) {
    facts.daemon.expiries = {
        {"the certificate of this node", "/etc/onecopy/east.pem", begun, facts.daemon.now + left}};
    return Diagnose(facts);
  };
  CHECK(ends_in(hours(31 * 24)).Find("CERTIFICATE_EXPIRES") == nullptr);
  const Diagnosis soon = ends_in(hours(29 * 24));
  const Finding* finding = soon.Find("CERTIFICATE_EXPIRES");
  REQUIRE(finding != nullptr);
  CHECK(finding->severity == Severity::kNote);
  CHECK(finding->evidence.find("/etc/onecopy/east.pem") != std::string::npos);
  CHECK(finding->remedy.find("onecopy cert") != std::string::npos);
  const Diagnosis late = ends_in(hours(-1));
  REQUIRE(late.Find("CERTIFICATE_EXPIRED") != nullptr);
  CHECK(late.Find("CERTIFICATE_EXPIRED")->severity == Severity::kBlocks);
  CHECK(late.Find("CERTIFICATE_EXPIRES") == nullptr);
}
