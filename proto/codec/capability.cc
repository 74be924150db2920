#include <array>
#include <string>
#include <utility>

#include "proto/codec/codec.h"
#include "proto/codec/utf8.h"

namespace onecopy::codec {
namespace {

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
  ONECOPY_ASSIGN_OR_RETURN(value.nvlink_peers,
                           ParseEach(in.nvlink_peers(), at / "nvlink_peers", ParseName));
  ONECOPY_ASSIGN_OR_RETURN(value.viability, Parse(in.viability(), at / "viability"));
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
  for (const std::string& peer : value.nvlink_peers) out->add_nvlink_peers(ToUtf8(peer));
  Print(value.viability, out->mutable_viability());
  PrintMap(value.attributes, out->mutable_attributes());
}

Result<NicMemory> ParseNicMemory(const v1::NicMemory& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.kind(), at / "kind"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.device(), at / "device"));
  ONECOPY_ASSIGN_OR_RETURN(Viability viability, Parse(in.viability(), at / "viability"));
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
  ONECOPY_ASSIGN_OR_RETURN(value.viability, Parse(in.viability(), at / "viability"));
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
  Print(value.viability, out->mutable_viability());
  for (const NicMemory& memory : value.memories) {
    v1::NicMemory* memory_out = out->add_memories();
    memory_out->set_kind(ToUtf8(memory.kind));
    memory_out->set_device(ToUtf8(memory.device));
    Print(memory.viability, memory_out->mutable_viability());
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
  ONECOPY_ASSIGN_OR_RETURN(value.viability, Parse(in.viability(), at / "viability"));
  ONECOPY_ASSIGN_OR_RETURN(value.nics, ParseEach(in.nics(), at / "nics", ParseNic));
  ONECOPY_ASSIGN_OR_RETURN(value.attributes, ParseMap(in.attributes(), at / "attributes"));
  return value;
}

void PrintLink(const LinkCapability& value, v1::LinkCapability* out) {
  out->set_name(ToUtf8(value.name));
  out->set_version(ToUtf8(value.version));
  out->set_version_must_match(value.version_must_match);
  out->set_rdma(value.rdma);
  Print(value.viability, out->mutable_viability());
  for (const NicCapability& nic : value.nics) PrintNic(nic, out->add_nics());
  PrintMap(value.attributes, out->mutable_attributes());
}

Result<StoreCapability> ParseStore(const v1::StoreCapability& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.name(), at / "name"));
  StoreCapability value;
  value.name = in.name();
  ONECOPY_ASSIGN_OR_RETURN(value.viability, Parse(in.viability(), at / "viability"));
  ONECOPY_ASSIGN_OR_RETURN(value.attributes, ParseMap(in.attributes(), at / "attributes"));
  return value;
}

// Both ways by one table.
constexpr std::array<std::pair<Distance, v1::Distance>, 6> kDistances = {{
    {Distance::kSameSwitch, v1::PIX},
    {Distance::kSwitches, v1::PXB},
    {Distance::kHostBridge, v1::PHB},
    {Distance::kNumaNode, v1::NODE},
    {Distance::kSystem, v1::SYS},
    {Distance::kUnknown, v1::DISTANCE_UNSPECIFIED},
}};
constexpr std::array<std::pair<DeviceKind, v1::DeviceKind>, 3> kDeviceKinds = {{
    {DeviceKind::kGpu, v1::GPU},
    {DeviceKind::kNic, v1::NIC},
    {DeviceKind::kNvme, v1::NVME},
}};

// A distance that is not known here is an unknown one, however strictly it is read.
Distance ParseDistance(int in) {
  for (const auto& [value, message] : kDistances) {
    if (message == in) return value;
  }
  return Distance::kUnknown;
}

v1::Distance PrintDistance(Distance distance) {
  for (const auto& [value, message] : kDistances) {
    if (value == distance) return message;
  }
  return v1::DISTANCE_UNSPECIFIED;
}

Result<DeviceKind> ParseDeviceKind(v1::DeviceKind in, const Field& at) {
  for (const auto& [value, message] : kDeviceKinds) {
    if (message == in) return value;
  }
  if (at.strict()) return BadField(at, "is not a kind of device");
  return DeviceKind::kNic;
}

v1::DeviceKind PrintDeviceKind(DeviceKind kind) {
  for (const auto& [value, message] : kDeviceKinds) {
    if (value == kind) return message;
  }
  return v1::DEVICE_KIND_UNSPECIFIED;
}

Result<TopologyDevice> ParseDevice(const v1::TopologyDevice& in, const Field& at) {
  TopologyDevice device;
  ONECOPY_ASSIGN_OR_RETURN(device.kind, ParseDeviceKind(in.kind(), at / "kind"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.name(), at / "name"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.address(), at / "address"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.cpus(), at / "cpus", kMaxText));
  if (at.strict() && in.name().empty()) return BadField(at / "name", "is empty");
  if (at.strict() && in.numa_node() < -1) return BadField(at / "numa_node", "is not a NUMA node");
  device.name = in.name();
  device.address = in.address();
  device.numa_node = in.numa_node();
  device.cpus = in.cpus();
  device.emulated = in.emulated();
  return device;
}

// Read leniently, a missing distance counts as unknown. If there are more devices than any machine
// has, the topology is left empty.
Result<Topology> ParseTopology(const v1::Topology& in, const Field& at) {
  const auto devices = static_cast<size_t>(in.devices_size());
  const size_t pairs = Topology::PairCount(devices);
  if (devices > Topology::kMaxDevices) {
    if (!at.strict()) return Topology();
    return BadField(at / "devices", "has " + std::to_string(devices) + " entries; at most " +
                                        std::to_string(Topology::kMaxDevices) + " are taken");
  }
  if (at.strict() && static_cast<size_t>(in.distances_size()) != pairs) {
    return BadField(at / "distances", "has " + std::to_string(in.distances_size()) +
                                          " entries, not one for each pair of devices");
  }
  Topology topology;
  ONECOPY_ASSIGN_OR_RETURN(topology.devices, ParseEach(in.devices(), at / "devices", ParseDevice));
  for (const int distance : in.distances()) topology.distances.push_back(ParseDistance(distance));
  topology.distances.resize(pairs, Distance::kUnknown);
  topology.virtual_machine = in.virtual_machine();
  ONECOPY_RETURN_IF_ERROR(CheckText(in.source(), at / "source", kMaxText));
  topology.source = in.source();
  return topology;
}

void PrintTopology(const Topology& value, v1::Topology* out) {
  for (const TopologyDevice& device : value.devices) {
    v1::TopologyDevice* device_out = out->add_devices();
    device_out->set_kind(PrintDeviceKind(device.kind));
    device_out->set_name(ToUtf8(device.name));
    device_out->set_address(ToUtf8(device.address));
    device_out->set_numa_node(device.numa_node);
    device_out->set_cpus(CutUtf8(ToUtf8(device.cpus), kMaxText));
    device_out->set_emulated(device.emulated);
  }
  for (const Distance distance : value.distances) out->add_distances(PrintDistance(distance));
  out->set_virtual_machine(value.virtual_machine);
  out->set_source(CutUtf8(ToUtf8(value.source), kMaxText));
}

}  // namespace

Result<Viability> Parse(const v1::Viability& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.reason(), at / "reason"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.detail(), at / "detail", kMaxText));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.remedy(), at / "remedy", kMaxText));
  return Viability{in.viable(), in.reason(), in.detail(), in.remedy()};
}

void Print(const Viability& value, v1::Viability* out) {
  out->set_viable(value.viable);
  out->set_reason(ToUtf8(value.reason));
  out->set_detail(CutUtf8(ToUtf8(value.detail), kMaxText));
  out->set_remedy(CutUtf8(ToUtf8(value.remedy), kMaxText));
}

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
    Print(store.viability, store_out->mutable_viability());
    PrintMap(store.attributes, store_out->mutable_attributes());
  }
  PrintTopology(value.topology, out->mutable_topology());
}

}  // namespace onecopy::codec
