#include "tests/unit/doctor/healthy.h"

namespace onecopy::doctor {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

Gpu MakeGpu(const std::string& address, const std::string& other) {
  Gpu gpu;
  gpu.name = "NVIDIA H100";
  gpu.uuid = "GPU-" + address;
  gpu.address = address;
  gpu.total_bytes = 80 * kGiB;
  gpu.bar1_bytes = 128 * kGiB;
  gpu.dma_buf = true;
  gpu.gpu_direct_rdma = true;
  gpu.persistence = true;
  gpu.direct_peers = {other};
  return gpu;
}

Port MakePort(const std::string& link_layer) {
  Port port;
  port.state = "ACTIVE";
  port.link_layer = link_layer;
  port.bytes_per_second = 50'000'000'000;
  port.active_mtu = port.max_mtu = 4096;
  if (port.ethernet()) {
    port.gids = {{"fe80::1", "IB/RoCE v1", "eth1"}, {"fe80::1", "RoCE v2", "eth1"}};
    port.netdev = "eth1";
    port.netdev_mtu = 9000;
  }
  return port;
}

LinkCapability MakeUcx() {
  LinkCapability ucx;
  ucx.name = "ucx";
  ucx.version = "1.17.0";
  ucx.rdma = true;
  return ucx;
}

}  // namespace

Facts HealthyFactsWithoutDaemon() {
  Facts facts;
  facts.gpus = {MakeGpu("0000:1b:00.0", "0000:9d:00.0"), MakeGpu("0000:9d:00.0", "0000:1b:00.0")};
  facts.nics = {{"mlx5_0", "0000:18:00.0", false, {MakePort("InfiniBand")}},
                {"mlx5_1", "0000:9a:00.0", false, {MakePort("Ethernet")}}};
  facts.topology.source = "hwloc";
  facts.topology.devices = {{DeviceKind::kGpu, "0000:1b:00.0", "0000:1b:00.0", 0, "0-15"},
                            {DeviceKind::kGpu, "0000:9d:00.0", "0000:9d:00.0", 1, "16-31"},
                            {DeviceKind::kNic, "mlx5_0", "0000:18:00.0", 0, "0-15"},
                            {DeviceKind::kNic, "mlx5_1", "0000:9a:00.0", 1, "16-31"}};
  facts.topology.distances = {Distance::kSystem, Distance::kSameSwitch, Distance::kSystem,
                              Distance::kSystem, Distance::kSameSwitch, Distance::kSystem};
  facts.device_files = {{"/dev/infiniband/uverbs0", ""}, {"/dev/infiniband/uverbs1", ""}};
  facts.driver.found = true;
  facts.driver.version = "CUDA 13.0";
  facts.nvml.found = true;
  facts.verbs.found = true;
  facts.ucx.found = true;
  facts.ucx.version = "1.17.0";
  facts.ucx.modules_folder = "/opt/ucx/lib/ucx";
  facts.ucx.modules = {"libuct_cuda", "libuct_ib_mlx5"};
  facts.ucx.verbs = facts.ucx.cuda = true;
  facts.kernel.release = "6.1.0";
  facts.kernel.major = 6;
  facts.kernel.minor = 1;
  facts.kernel.peermem = false;
  facts.memlock = {true, true, 0};
  facts.iommu = {{"0000:1b:00.0", "identity"}, {"0000:18:00.0", "identity"}};
  facts.daemon.why_not = "nothing listens";
  return facts;
}

Facts HealthyFacts() {
  Facts facts = HealthyFactsWithoutDaemon();
  facts.daemon.answered = true;
  facts.daemon.why_not.clear();
  facts.daemon.capabilities.node = "east";
  NicCapability nic;
  nic.name = "mlx5_0";
  nic.bytes_per_second = 50'000'000'000;
  LinkCapability verbs;
  verbs.name = "verbs";
  verbs.rdma = true;
  verbs.nics = {nic};
  facts.daemon.capabilities.links = {verbs, MakeUcx()};
  Peer peer;
  peer.name = "west";
  peer.connected = true;
  peer.capabilities.node = "west";
  peer.capabilities.links = {MakeUcx()};
  facts.daemon.peers = {peer};
  Probe probe;
  probe.link = "verbs";
  probe.nic = "mlx5_0";
  probe.peer = "west";
  probe.peer_nic = "mlx5_0";
  probe.memory = probe.peer_memory = "cuda";
  probe.used = probe.viable = true;
  probe.bytes_per_second = 48'000'000'000;
  probe.expected_bytes_per_second = 50'000'000'000;
  facts.probes = {probe};
  return facts;
}

}  // namespace onecopy::doctor
