#include "daemon/rpc/convert_node.h"

#include "proto/codec/utf8.h"

namespace onecopy::rpc {
namespace {

Result<Viability> ParseViability(const v1::Viability& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.reason(), at / "reason"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.detail(), at / "detail", kMostText));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.remedy(), at / "remedy", kMostText));
  return Viability{in.viable(), in.reason(), in.detail(), in.remedy()};
}

void PrintViability(const Viability& value, v1::Viability* out) {
  out->set_viable(value.viable);
  out->set_reason(ToUtf8(value.reason));
  out->set_detail(CutUtf8(ToUtf8(value.detail), kMostText));
  out->set_remedy(CutUtf8(ToUtf8(value.remedy), kMostText));
}

Result<MemoryCapability> ParseMemory(const v1::MemoryCapability& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.kind(), at / "kind"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.device(), at / "device"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.name(), at / "name"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.address(), at / "address"));
  MemoryCapability value;
  value.kind = in.kind();
  value.device = in.device();
  value.name = in.name();
  value.address = in.address();
  value.ordinal = in.ordinal();
  value.total_bytes = in.total_bytes();
  value.cpu_addressable = in.cpu_addressable();
  value.kernel_below_bytes_host = in.kernel_below_bytes_host();
  value.kernel_below_bytes_gpu = in.kernel_below_bytes_gpu();
  ONECOPY_ASSIGN_OR_RETURN(value.direct_peers,
                           ParseEach(in.direct_peers(), at / "direct_peers", ParseName));
  ONECOPY_ASSIGN_OR_RETURN(value.viability, ParseViability(in.viability(), at / "viability"));
  ONECOPY_ASSIGN_OR_RETURN(value.attributes, ParseMap(in.attributes(), at / "attributes"));
  return value;
}

void PrintMemory(const MemoryCapability& value, v1::MemoryCapability* out) {
  out->set_kind(ToUtf8(value.kind));
  out->set_device(ToUtf8(value.device));
  out->set_name(ToUtf8(value.name));
  out->set_address(ToUtf8(value.address));
  out->set_ordinal(value.ordinal);
  out->set_total_bytes(value.total_bytes);
  out->set_cpu_addressable(value.cpu_addressable);
  out->set_kernel_below_bytes_host(value.kernel_below_bytes_host);
  out->set_kernel_below_bytes_gpu(value.kernel_below_bytes_gpu);
  for (const std::string& peer : value.direct_peers) out->add_direct_peers(ToUtf8(peer));
  PrintViability(value.viability, out->mutable_viability());
  PrintMap(value.attributes, out->mutable_attributes());
}

Result<NicMemory> ParseNicMemory(const v1::NicMemory& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.kind(), at / "kind"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.device(), at / "device"));
  ONECOPY_ASSIGN_OR_RETURN(Viability viability, ParseViability(in.viability(), at / "viability"));
  return NicMemory{in.kind(), in.device(), std::move(viability)};
}

Result<NicCapability> ParseNic(const v1::NicCapability& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.name(), at / "name"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.address(), at / "address"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.fabric(), at / "fabric"));
  NicCapability value;
  value.name = in.name();
  value.address = in.address();
  value.fabric = in.fabric();
  value.bytes_per_second = in.bytes_per_second();
  value.emulated = in.emulated();
  ONECOPY_ASSIGN_OR_RETURN(value.viability, ParseViability(in.viability(), at / "viability"));
  ONECOPY_ASSIGN_OR_RETURN(value.memories,
                           ParseEach(in.memories(), at / "memories", ParseNicMemory));
  return value;
}

void PrintNic(const NicCapability& value, v1::NicCapability* out) {
  out->set_name(ToUtf8(value.name));
  out->set_address(ToUtf8(value.address));
  out->set_fabric(ToUtf8(value.fabric));
  out->set_bytes_per_second(value.bytes_per_second);
  out->set_emulated(value.emulated);
  PrintViability(value.viability, out->mutable_viability());
  for (const NicMemory& memory : value.memories) {
    v1::NicMemory* memory_out = out->add_memories();
    memory_out->set_kind(ToUtf8(memory.kind));
    memory_out->set_device(ToUtf8(memory.device));
    PrintViability(memory.viability, memory_out->mutable_viability());
  }
}

Result<LinkCapability> ParseLink(const v1::LinkCapability& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.name(), at / "name"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.version(), at / "version"));
  LinkCapability value;
  value.name = in.name();
  value.version = in.version();
  value.version_must_match = in.version_must_match();
  value.rdma = in.rdma();
  ONECOPY_ASSIGN_OR_RETURN(value.viability, ParseViability(in.viability(), at / "viability"));
  ONECOPY_ASSIGN_OR_RETURN(value.nics, ParseEach(in.nics(), at / "nics", ParseNic));
  ONECOPY_ASSIGN_OR_RETURN(value.attributes, ParseMap(in.attributes(), at / "attributes"));
  return value;
}

void PrintLink(const LinkCapability& value, v1::LinkCapability* out) {
  out->set_name(ToUtf8(value.name));
  out->set_version(ToUtf8(value.version));
  out->set_version_must_match(value.version_must_match);
  out->set_rdma(value.rdma);
  PrintViability(value.viability, out->mutable_viability());
  for (const NicCapability& nic : value.nics) PrintNic(nic, out->add_nics());
  PrintMap(value.attributes, out->mutable_attributes());
}

Result<StoreCapability> ParseStore(const v1::StoreCapability& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.name(), at / "name"));
  StoreCapability value;
  value.name = in.name();
  ONECOPY_ASSIGN_OR_RETURN(value.viability, ParseViability(in.viability(), at / "viability"));
  ONECOPY_ASSIGN_OR_RETURN(value.attributes, ParseMap(in.attributes(), at / "attributes"));
  return value;
}

void PrintProbe(const engine::ProbeInfo& value, v1::Probe* out) {
  out->set_node(ToUtf8(value.peer));
  out->set_link(ToUtf8(value.link));
  out->set_source_memory(ToUtf8(value.source_memory));
  out->set_source_device(ToUtf8(value.source_device));
  out->set_destination_memory(ToUtf8(value.destination_memory));
  out->set_destination_device(ToUtf8(value.destination_device));
  out->set_source_nic(ToUtf8(value.source_nic));
  out->set_destination_nic(ToUtf8(value.destination_nic));
  PrintViability(value.viability, out->mutable_viability());
  out->set_bytes_per_second(value.bytes_per_second);
  out->set_latency_seconds(value.latency_seconds);
  Print(value.time, out->mutable_time());
  Print(value.expire_time, out->mutable_expire_time());
}

v1::NodeState PrintState(engine::NodeState state) {
  switch (state) {
    case engine::NodeState::kConnected:
      return v1::CONNECTED;
    case engine::NodeState::kDisconnected:
      return v1::DISCONNECTED;
    case engine::NodeState::kIncompatible:
      return v1::INCOMPATIBLE;
    case engine::NodeState::kDraining:
      return v1::DRAINING;
  }
  return v1::NODE_STATE_UNSPECIFIED;
}

Distance ParseDistance(int distance) {
  switch (distance) {
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

v1::Distance PrintDistance(Distance distance) {
  switch (distance) {
    case Distance::kSameSwitch:
      return v1::PIX;
    case Distance::kSwitches:
      return v1::PXB;
    case Distance::kHostBridge:
      return v1::PHB;
    case Distance::kNumaNode:
      return v1::NODE;
    case Distance::kSystem:
      return v1::SYS;
    case Distance::kUnknown:
      return v1::DISTANCE_UNSPECIFIED;
  }
  return v1::DISTANCE_UNSPECIFIED;
}

Result<TopologyDevice> ParseDevice(const v1::TopologyDevice& in, const Field& at) {
  TopologyDevice device;
  switch (in.kind()) {
    case v1::GPU:
      device.kind = DeviceKind::kGpu;
      break;
    case v1::NIC:
      device.kind = DeviceKind::kNic;
      break;
    case v1::NVME:
      device.kind = DeviceKind::kNvme;
      break;
    default:
      return BadField(at / "kind", "is no kind of device");
  }
  ONECOPY_RETURN_IF_ERROR(CheckText(in.name(), at / "name"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.address(), at / "address"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.cpus(), at / "cpus", kMostText));
  if (in.name().empty()) return BadField(at / "name", "is empty");
  if (in.numa_node() < -1) return BadField(at / "numa_node", "is no NUMA node");
  device.name = in.name();
  device.address = in.address();
  device.numa_node = in.numa_node();
  device.cpus = in.cpus();
  device.emulated = in.emulated();
  return device;
}

Result<Topology> ParseTopology(const v1::Topology& in, const Field& at) {
  const auto devices = static_cast<size_t>(in.devices_size());
  if (devices > Topology::kMostDevices) {
    return BadField(at / "devices", "has " + std::to_string(devices) + " entries; at most " +
                                        std::to_string(Topology::kMostDevices) + " are taken");
  }
  if (static_cast<size_t>(in.distances_size()) != Topology::PairCount(devices)) {
    return BadField(at / "distances", "has " + std::to_string(in.distances_size()) +
                                          " entries, not one for each pair of devices");
  }
  Topology topology;
  ONECOPY_ASSIGN_OR_RETURN(topology.devices, ParseEach(in.devices(), at / "devices", ParseDevice));
  for (const int distance : in.distances()) topology.distances.push_back(ParseDistance(distance));
  topology.virtual_machine = in.virtual_machine();
  ONECOPY_RETURN_IF_ERROR(CheckText(in.source(), at / "source", kMostText));
  topology.source = in.source();
  return topology;
}

void PrintTopology(const Topology& value, v1::Topology* out) {
  for (const TopologyDevice& device : value.devices) {
    v1::TopologyDevice* device_out = out->add_devices();
    device_out->set_kind(device.kind == DeviceKind::kGpu   ? v1::GPU
                         : device.kind == DeviceKind::kNic ? v1::NIC
                                                           : v1::NVME);
    device_out->set_name(ToUtf8(device.name));
    device_out->set_address(ToUtf8(device.address));
    device_out->set_numa_node(device.numa_node);
    device_out->set_cpus(CutUtf8(ToUtf8(device.cpus), kMostText));
    device_out->set_emulated(device.emulated);
  }
  for (const Distance distance : value.distances) out->add_distances(PrintDistance(distance));
  out->set_virtual_machine(value.virtual_machine);
  out->set_source(CutUtf8(ToUtf8(value.source), kMostText));
}

}  // namespace

Result<NodeCapability> Parse(const v1::Capabilities& in, const std::string& node, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.host(), at / "host"));
  NodeCapability value;
  value.node = node;
  value.host = in.host();
  ONECOPY_ASSIGN_OR_RETURN(value.memories, ParseEach(in.memories(), at / "memories", ParseMemory));
  ONECOPY_ASSIGN_OR_RETURN(value.links, ParseEach(in.links(), at / "links", ParseLink));
  ONECOPY_ASSIGN_OR_RETURN(value.stores, ParseEach(in.stores(), at / "stores", ParseStore));
  ONECOPY_ASSIGN_OR_RETURN(value.topology, ParseTopology(in.topology(), at / "topology"));
  return value;
}

void Print(const NodeCapability& value, v1::Capabilities* out) {
  out->set_host(ToUtf8(value.host));
  for (const MemoryCapability& memory : value.memories) PrintMemory(memory, out->add_memories());
  for (const LinkCapability& link : value.links) PrintLink(link, out->add_links());
  for (const StoreCapability& store : value.stores) {
    v1::StoreCapability* store_out = out->add_stores();
    store_out->set_name(ToUtf8(store.name));
    PrintViability(store.viability, store_out->mutable_viability());
    PrintMap(store.attributes, store_out->mutable_attributes());
  }
  PrintTopology(value.topology, out->mutable_topology());
}

namespace {

void PrintRate(const engine::PathRateInfo& value, v1::PathRate* out) {
  out->set_path(ToUtf8(value.way.path));
  out->set_link(ToUtf8(value.way.link));
  out->set_source_memory(ToUtf8(value.way.source.kind));
  out->set_source_device(ToUtf8(value.way.source.device));
  out->set_destination_memory(ToUtf8(value.way.destination.kind));
  out->set_destination_device(ToUtf8(value.way.destination.device));
  out->set_source_staged(value.way.source_staged);
  out->set_destination_staged(value.way.destination_staged);
  out->set_least_bytes(value.least_bytes);
  out->set_bytes_per_second(value.rate.bytes_per_second);
  out->set_transfers(value.rate.transfers);
  Print(value.rate.time, out->mutable_time());
}

}  // namespace

void Print(const engine::NodeInfo& value, v1::Node* out) {
  out->set_name(ToUtf8(value.name));
  out->set_self(value.self);
  out->set_state(PrintState(value.state));
  out->set_address(ToUtf8(value.address));
  out->set_boot_id(ToUtf8(value.boot_id));
  out->set_protocol_min(value.protocol_min);
  out->set_protocol_max(value.protocol_max);
  out->set_version(ToUtf8(value.version));
  out->set_reason(ToUtf8(value.reason));
  out->set_detail(ToUtf8(value.detail));
  Print(value.since, out->mutable_since());
  out->set_uid_domain(ToUtf8(value.uid_domain));
  if (!value.capabilities.node.empty()) Print(value.capabilities, out->mutable_capabilities());
  for (const engine::ProbeInfo& probe : value.probes) PrintProbe(probe, out->add_probes());
  out->set_slow_transfers(value.slow_transfers);
  for (const engine::PathRateInfo& rate : value.path_rates) PrintRate(rate, out->add_path_rates());
  for (const engine::Expiry& expiry : value.expiries) {
    v1::Expiry* const one = out->add_expiries();
    one->set_what(ToUtf8(expiry.what));
    one->set_file(ToUtf8(expiry.file));
    Print(expiry.since, one->mutable_begin_time());
    Print(expiry.expire_time, one->mutable_expire_time());
  }
}

void Print(const engine::Page<engine::NodeInfo>& value, v1::ListNodesResponse* out) {
  for (const engine::NodeInfo& node : value.items) {
    v1::Node* node_out = out->add_nodes();
    Print(node, node_out);
    node_out->clear_capabilities();
  }
  out->set_next_page_token(ToUtf8(value.next_token));
}

void Print(const std::vector<engine::ProbeInfo>& value, v1::ProbeNodeResponse* out) {
  for (const engine::ProbeInfo& probe : value) PrintProbe(probe, out->add_probes());
}

void Print(const std::string& previous_level, v1::SetLogLevelResponse* out) {
  out->set_previous_level(previous_level);
}

Result<std::string> Parse(const v1::GetNodeRequest& in) {
  return ParseName(in.name(), Field() / "name");
}

Result<engine::PageRequest> Parse(const v1::ListNodesRequest& in) {
  return ParsePage(in.page_size(), in.page_token(), Field());
}

Result<std::string> Parse(const v1::ProbeNodeRequest& in) {
  return ParseName(in.name(), Field() / "name");
}

Result<std::string> Parse(const v1::ReleaseDeviceRequest& in) {
  return ParseName(in.device(), Field() / "device");
}

Result<std::string> Parse(const v1::SetLogLevelRequest& in) {
  return ParseName(in.level(), Field() / "level");
}

}  // namespace onecopy::rpc
