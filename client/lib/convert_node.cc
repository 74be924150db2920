#include "client/lib/convert.h"
#include "client/lib/convert_time.h"

namespace onecopy::client {
namespace {

NodeState FromWire(v1::NodeState wire) {
  switch (wire) {
    case v1::CONNECTED:
      return NodeState::kConnected;
    case v1::DISCONNECTED:
      return NodeState::kDisconnected;
    case v1::INCOMPATIBLE:
      return NodeState::kIncompatible;
    case v1::DRAINING:
      return NodeState::kDraining;
    default:
      return NodeState::kUnknown;
  }
}

Viability FromWire(const v1::Viability& wire) {
  return {wire.viable(), wire.reason(), wire.detail(), wire.remedy()};
}

template <typename Map>
std::map<std::string, std::string> MapFromWire(const Map& wire) {
  return {wire.begin(), wire.end()};
}

MemoryCapability FromWire(const v1::MemoryCapability& wire) {
  MemoryCapability memory;
  memory.kind = wire.kind();
  memory.device = wire.device();
  memory.name = wire.name();
  memory.address = wire.address();
  memory.ordinal = wire.ordinal();
  memory.total_bytes = wire.total_bytes();
  memory.cpu_addressable = wire.cpu_addressable();
  memory.direct_peers = {wire.direct_peers().begin(), wire.direct_peers().end()};
  memory.viability = FromWire(wire.viability());
  memory.attributes = MapFromWire(wire.attributes());
  return memory;
}

NicCapability FromWire(const v1::NicCapability& wire) {
  NicCapability nic;
  nic.name = wire.name();
  nic.address = wire.address();
  nic.fabric = wire.fabric();
  nic.bytes_per_second = wire.bytes_per_second();
  nic.emulated = wire.emulated();
  nic.viability = FromWire(wire.viability());
  for (const v1::NicMemory& memory : wire.memories()) {
    nic.memories.push_back({memory.kind(), memory.device(), FromWire(memory.viability())});
  }
  return nic;
}

LinkCapability FromWire(const v1::LinkCapability& wire) {
  LinkCapability link;
  link.name = wire.name();
  link.version = wire.version();
  link.version_must_match = wire.version_must_match();
  link.rdma = wire.rdma();
  link.viability = FromWire(wire.viability());
  for (const v1::NicCapability& nic : wire.nics()) link.nics.push_back(FromWire(nic));
  link.attributes = MapFromWire(wire.attributes());
  return link;
}

StoreCapability FromWire(const v1::StoreCapability& wire) {
  return {wire.name(), FromWire(wire.viability()), MapFromWire(wire.attributes())};
}

Distance DistanceFromWire(int wire) {
  switch (wire) {
    case v1::PIX:
      return Distance::kSameSwitch;
    case v1::PXB:
      return Distance::kSwitches;
    case v1::PHB:
      return Distance::kHostBridge;
    case v1::NODE:
      return Distance::kNumaNode;
    case v1::SYS:
      return Distance::kSystem;
    default:
      return Distance::kUnknown;
  }
}

Topology FromWire(const v1::Topology& wire) {
  Topology topology;
  for (const v1::TopologyDevice& in : wire.devices()) {
    TopologyDevice& device = topology.devices.emplace_back();
    device.kind = in.kind() == v1::GPU    ? DeviceKind::kGpu
                  : in.kind() == v1::NVME ? DeviceKind::kNvme
                                          : DeviceKind::kNic;
    device.name = in.name();
    device.address = in.address();
    device.numa_node = in.numa_node();
    device.cpus = in.cpus();
    device.emulated = in.emulated();
  }
  for (const int distance : wire.distances()) {
    topology.distances.push_back(DistanceFromWire(distance));
  }
  topology.distances.resize(Topology::PairCount(topology.devices.size()), Distance::kUnknown);
  topology.virtual_machine = wire.virtual_machine();
  topology.source = wire.source();
  return topology;
}

NodeCapability FromWire(const std::string& node, const v1::Capabilities& wire) {
  NodeCapability capability;
  capability.node = node;
  capability.host = wire.host();
  for (const auto& memory : wire.memories()) capability.memories.push_back(FromWire(memory));
  for (const auto& link : wire.links()) capability.links.push_back(FromWire(link));
  for (const auto& store : wire.stores()) capability.stores.push_back(FromWire(store));
  capability.topology = FromWire(wire.topology());
  return capability;
}

}  // namespace

ProbeInfo FromWire(const v1::Probe& wire) {
  ProbeInfo probe;
  probe.node = wire.node();
  probe.link = wire.link();
  probe.source_memory = wire.source_memory();
  probe.source_device = wire.source_device();
  probe.destination_memory = wire.destination_memory();
  probe.destination_device = wire.destination_device();
  probe.source_nic = wire.source_nic();
  probe.destination_nic = wire.destination_nic();
  probe.viability = FromWire(wire.viability());
  probe.bytes_per_second = wire.bytes_per_second();
  probe.latency_seconds = wire.latency_seconds();
  probe.time = FromWire(wire.time());
  probe.expire_time = FromWire(wire.expire_time());
  return probe;
}

static PathRateInfo FromWire(const v1::PathRate& wire) {
  PathRateInfo rate;
  rate.path = wire.path();
  rate.link = wire.link();
  rate.source_memory = wire.source_memory();
  rate.source_device = wire.source_device();
  rate.destination_memory = wire.destination_memory();
  rate.destination_device = wire.destination_device();
  rate.source_staged = wire.source_staged();
  rate.destination_staged = wire.destination_staged();
  rate.least_bytes = wire.least_bytes();
  rate.bytes_per_second = wire.bytes_per_second();
  rate.transfers = wire.transfers();
  rate.time = FromWire(wire.time());
  return rate;
}

NodeInfo FromWire(const v1::Node& wire) {
  NodeInfo node;
  node.name = wire.name();
  node.self = wire.self();
  node.state = FromWire(wire.state());
  node.address = wire.address();
  node.boot_id = wire.boot_id();
  node.protocol_min = wire.protocol_min();
  node.protocol_max = wire.protocol_max();
  node.version = wire.version();
  node.reason = wire.reason();
  node.detail = wire.detail();
  node.since = FromWire(wire.since());
  node.uid_domain = wire.uid_domain();
  if (wire.has_capabilities()) node.capabilities = FromWire(wire.name(), wire.capabilities());
  for (const v1::Probe& probe : wire.probes()) node.probes.push_back(FromWire(probe));
  node.slow_transfers = wire.slow_transfers();
  for (const v1::PathRate& rate : wire.path_rates()) node.path_rates.push_back(FromWire(rate));
  for (const v1::Expiry& expiry : wire.expiries()) {
    node.expiries.push_back({expiry.what(), expiry.file(), FromWire(expiry.begin_time()),
                             FromWire(expiry.expire_time())});
  }
  return node;
}

}  // namespace onecopy::client
