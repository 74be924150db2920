#include <algorithm>
#include <array>
#include <utility>

#include "proto/codec/codec.h"
#include "proto/codec/utf8.h"

namespace onecopy::codec {
namespace {

Result<Viability> ParseViability(const v1::Viability& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.reason(), at / "reason"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.detail(), at / "detail", kMaxText));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.remedy(), at / "remedy", kMaxText));
  return Viability{in.viable(), in.reason(), in.detail(), in.remedy()};
}

void PrintViability(const Viability& value, v1::Viability* out) {
  out->set_viable(value.viable);
  out->set_reason(ToUtf8(value.reason));
  out->set_detail(CutUtf8(ToUtf8(value.detail), kMaxText));
  out->set_remedy(CutUtf8(ToUtf8(value.remedy), kMaxText));
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
  ONECOPY_ASSIGN_OR_RETURN(value.nvlink_peers,
                           ParseEach(in.nvlink_peers(), at / "nvlink_peers", ParseName));
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
  for (const std::string& peer : value.nvlink_peers) out->add_nvlink_peers(ToUtf8(peer));
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

// Both ways by one table.
constexpr std::array<std::pair<NodeState, v1::NodeState>, 4> kNodeStates = {{
    {NodeState::kConnected, v1::CONNECTED},
    {NodeState::kDisconnected, v1::DISCONNECTED},
    {NodeState::kIncompatible, v1::INCOMPATIBLE},
    {NodeState::kDraining, v1::DRAINING},
}};
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

Result<NodeState> ParseNodeState(v1::NodeState in, const Field& at) {
  for (const auto& [value, message] : kNodeStates) {
    if (message == in) return value;
  }
  if (at.strict()) return BadField(at, "is not a state of a node: " + std::to_string(in));
  return NodeState::kUnknown;
}

v1::NodeState PrintNodeState(NodeState state) {
  for (const auto& [value, message] : kNodeStates) {
    if (value == state) return message;
  }
  return v1::NODE_STATE_UNSPECIFIED;
}

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

// Leniently, distances that are not there are unknown ones, and of more devices than any machine
// has there is no topology.
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

Result<ProbeInfo> Parse(const v1::Probe& in, const Field& at) {
  for (const auto& [text, name] : {std::pair(&in.node(), "node"), std::pair(&in.link(), "link"),
                                   std::pair(&in.source_memory(), "source_memory"),
                                   std::pair(&in.source_device(), "source_device"),
                                   std::pair(&in.destination_memory(), "destination_memory"),
                                   std::pair(&in.destination_device(), "destination_device"),
                                   std::pair(&in.source_nic(), "source_nic"),
                                   std::pair(&in.destination_nic(), "destination_nic")}) {
    ONECOPY_RETURN_IF_ERROR(CheckText(*text, at / name));
  }
  ONECOPY_RETURN_IF_ERROR(CheckNumber(in.bytes_per_second(), at / "bytes_per_second"));
  ONECOPY_RETURN_IF_ERROR(CheckNumber(in.latency_seconds(), at / "latency_seconds"));
  ProbeInfo value;
  value.node = in.node();
  value.link = in.link();
  value.source_memory = in.source_memory();
  value.source_device = in.source_device();
  value.destination_memory = in.destination_memory();
  value.destination_device = in.destination_device();
  value.source_nic = in.source_nic();
  value.destination_nic = in.destination_nic();
  ONECOPY_ASSIGN_OR_RETURN(value.viability, ParseViability(in.viability(), at / "viability"));
  value.bytes_per_second = in.bytes_per_second();
  value.latency_seconds = in.latency_seconds();
  ONECOPY_ASSIGN_OR_RETURN(value.time, Parse(in.time(), at / "time"));
  ONECOPY_ASSIGN_OR_RETURN(value.expire_time, Parse(in.expire_time(), at / "expire_time"));
  return value;
}

void Print(const ProbeInfo& value, v1::Probe* out) {
  out->set_node(ToUtf8(value.node));
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

Result<PathRateInfo> Parse(const v1::PathRate& in, const Field& at) {
  for (const auto& [text, name] : {std::pair(&in.path(), "path"), std::pair(&in.link(), "link"),
                                   std::pair(&in.source_memory(), "source_memory"),
                                   std::pair(&in.source_device(), "source_device"),
                                   std::pair(&in.destination_memory(), "destination_memory"),
                                   std::pair(&in.destination_device(), "destination_device")}) {
    ONECOPY_RETURN_IF_ERROR(CheckText(*text, at / name));
  }
  ONECOPY_RETURN_IF_ERROR(CheckNumber(in.bytes_per_second(), at / "bytes_per_second"));
  PathRateInfo value;
  value.path = in.path();
  value.link = in.link();
  value.source_memory = in.source_memory();
  value.source_device = in.source_device();
  value.destination_memory = in.destination_memory();
  value.destination_device = in.destination_device();
  value.source_staged = in.source_staged();
  value.destination_staged = in.destination_staged();
  value.least_bytes = in.least_bytes();
  value.bytes_per_second = in.bytes_per_second();
  value.transfers = in.transfers();
  ONECOPY_ASSIGN_OR_RETURN(value.time, Parse(in.time(), at / "time"));
  return value;
}

void Print(const PathRateInfo& value, v1::PathRate* out) {
  out->set_path(ToUtf8(value.path));
  out->set_link(ToUtf8(value.link));
  out->set_source_memory(ToUtf8(value.source_memory));
  out->set_source_device(ToUtf8(value.source_device));
  out->set_destination_memory(ToUtf8(value.destination_memory));
  out->set_destination_device(ToUtf8(value.destination_device));
  out->set_source_staged(value.source_staged);
  out->set_destination_staged(value.destination_staged);
  out->set_least_bytes(value.least_bytes);
  out->set_bytes_per_second(value.bytes_per_second);
  out->set_transfers(value.transfers);
  Print(value.time, out->mutable_time());
}

Result<Expiry> Parse(const v1::Expiry& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.what(), at / "what", kMaxText));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.file(), at / "file", kMaxText));
  Expiry value;
  value.what = in.what();
  value.file = in.file();
  ONECOPY_ASSIGN_OR_RETURN(value.begin_time, Parse(in.begin_time(), at / "begin_time"));
  ONECOPY_ASSIGN_OR_RETURN(value.expire_time, Parse(in.expire_time(), at / "expire_time"));
  return value;
}

void Print(const Expiry& value, v1::Expiry* out) {
  out->set_what(CutUtf8(ToUtf8(value.what), kMaxText));
  out->set_file(CutUtf8(ToUtf8(value.file), kMaxText));
  Print(value.begin_time, out->mutable_begin_time());
  Print(value.expire_time, out->mutable_expire_time());
}

Result<AccountInfo> Parse(const v1::Account& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.payer(), at / "payer"));
  AccountInfo value;
  value.payer = in.payer();
  ONECOPY_ASSIGN_OR_RETURN(
      value.charges,
      ParseEach(in.charges(), at / "charges",
                [](const v1::Account::Charge& one, const Field& of) -> Result<ChargeInfo> {
                  ONECOPY_RETURN_IF_ERROR(CheckText(one.what(), of / "what"));
                  return ChargeInfo{one.what(), one.count(), one.bytes()};
                }));
  return value;
}

void Print(const AccountInfo& value, v1::Account* out) {
  out->set_payer(ToUtf8(value.payer));
  for (const ChargeInfo& charge : value.charges) {
    v1::Account::Charge& one = *out->add_charges();
    one.set_what(charge.what);
    one.set_count(charge.count);
    one.set_bytes(charge.bytes);
  }
}

Result<NameConflict> Parse(const v1::NameConflict& in, const Field& at) {
  for (const auto& [text, name] : {std::pair<const std::string&, const char*>{in.name(), "name"},
                                   {in.address(), "address"},
                                   {in.other(), "other"},
                                   {in.told_by(), "told_by"}}) {
    ONECOPY_RETURN_IF_ERROR(CheckText(text, at / name));
  }
  return NameConflict{in.name(), in.address(), in.other(), in.told_by()};
}

void Print(const NameConflict& value, v1::NameConflict* out) {
  out->set_name(ToUtf8(value.name));
  out->set_address(ToUtf8(value.address));
  out->set_other(ToUtf8(value.other));
  out->set_told_by(ToUtf8(value.told_by));
}

Result<DiscoveryInfo> Parse(const v1::Discovery& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.kind(), at / "kind"));
  DiscoveryInfo value;
  value.kind = in.kind();
  ONECOPY_ASSIGN_OR_RETURN(value.viability, ParseViability(in.viability(), at / "viability"));
  value.peers = in.peers();
  value.strangers = in.strangers();
  value.refused = in.refused();
  if (in.has_answer_time()) {
    ONECOPY_ASSIGN_OR_RETURN(value.answer_time, Parse(in.answer_time(), at / "answer_time"));
  }
  return value;
}

void Print(const DiscoveryInfo& value, v1::Discovery* out) {
  out->set_kind(ToUtf8(value.kind));
  PrintViability(value.viability, out->mutable_viability());
  out->set_peers(value.peers);
  out->set_strangers(value.strangers);
  out->set_refused(value.refused);
  if (value.answer_time) Print(*value.answer_time, out->mutable_answer_time());
}

Result<NodeInfo> Parse(const v1::Node& in, const Field& at) {
  for (const auto& [text, name] :
       {std::pair(&in.name(), "name"), std::pair(&in.address(), "address"),
        std::pair(&in.boot_id(), "boot_id"), std::pair(&in.version(), "version"),
        std::pair(&in.reason(), "reason"), std::pair(&in.uid_domain(), "uid_domain")}) {
    ONECOPY_RETURN_IF_ERROR(CheckText(*text, at / name));
  }
  ONECOPY_RETURN_IF_ERROR(CheckText(in.detail(), at / "detail", kMaxText));
  NodeInfo value;
  value.name = in.name();
  value.self = in.self();
  ONECOPY_ASSIGN_OR_RETURN(value.state, ParseNodeState(in.state(), at / "state"));
  value.address = in.address();
  value.boot_id = in.boot_id();
  value.protocol_min = in.protocol_min();
  value.protocol_max = in.protocol_max();
  value.version = in.version();
  value.reason = in.reason();
  value.detail = in.detail();
  ONECOPY_ASSIGN_OR_RETURN(value.since, Parse(in.since(), at / "since"));
  value.uid_domain = in.uid_domain();
  if (in.has_capabilities()) {
    ONECOPY_ASSIGN_OR_RETURN(value.capabilities,
                             Parse(in.capabilities(), in.name(), at / "capabilities"));
  }
  const auto parse = [](const auto& one, const Field& field) { return Parse(one, field); };
  ONECOPY_ASSIGN_OR_RETURN(value.probes, ParseEach(in.probes(), at / "probes", parse));
  value.slow_transfers = in.slow_transfers();
  for (const std::string& address : in.silent_addresses()) {
    ONECOPY_RETURN_IF_ERROR(CheckText(address, at / "silent_addresses"));
    value.silent_addresses.push_back(address);
  }
  ONECOPY_ASSIGN_OR_RETURN(value.path_rates, ParseEach(in.path_rates(), at / "path_rates", parse));
  ONECOPY_ASSIGN_OR_RETURN(value.expiries, ParseEach(in.expiries(), at / "expiries", parse));
  ONECOPY_ASSIGN_OR_RETURN(value.accounts, ParseEach(in.accounts(), at / "accounts", parse));
  if (in.has_metrics()) {
    const Field metrics = at / "metrics";
    ONECOPY_RETURN_IF_ERROR(CheckText(in.metrics().address(), metrics / "address"));
    MetricsInfo& info = value.metrics.emplace();
    info.address = in.metrics().address();
    ONECOPY_ASSIGN_OR_RETURN(info.viability,
                             ParseViability(in.metrics().viability(), metrics / "viability"));
  }
  ONECOPY_ASSIGN_OR_RETURN(value.conflicts, ParseEach(in.conflicts(), at / "conflicts", parse));
  if (in.has_discovery()) {
    ONECOPY_ASSIGN_OR_RETURN(value.discovery, Parse(in.discovery(), at / "discovery"));
  }
  return value;
}

void Print(const NodeInfo& value, v1::Node* out) {
  out->set_name(ToUtf8(value.name));
  out->set_self(value.self);
  out->set_state(PrintNodeState(value.state));
  out->set_address(ToUtf8(value.address));
  out->set_boot_id(ToUtf8(value.boot_id));
  out->set_protocol_min(value.protocol_min);
  out->set_protocol_max(value.protocol_max);
  out->set_version(ToUtf8(value.version));
  out->set_reason(ToUtf8(value.reason));
  out->set_detail(CutUtf8(ToUtf8(value.detail), kMaxText));
  Print(value.since, out->mutable_since());
  out->set_uid_domain(ToUtf8(value.uid_domain));
  if (value.capabilities) Print(*value.capabilities, out->mutable_capabilities());
  for (const ProbeInfo& probe : value.probes) Print(probe, out->add_probes());
  out->set_slow_transfers(value.slow_transfers);
  for (const std::string& address : value.silent_addresses) {
    out->add_silent_addresses(ToUtf8(address));
  }
  for (const PathRateInfo& rate : value.path_rates) Print(rate, out->add_path_rates());
  for (const Expiry& expiry : value.expiries) Print(expiry, out->add_expiries());
  for (const AccountInfo& account : value.accounts) Print(account, out->add_accounts());
  if (value.metrics) {
    out->mutable_metrics()->set_address(ToUtf8(value.metrics->address));
    PrintViability(value.metrics->viability, out->mutable_metrics()->mutable_viability());
  }
  for (const NameConflict& conflict : value.conflicts) Print(conflict, out->add_conflicts());
  if (value.discovery) Print(*value.discovery, out->mutable_discovery());
}

Result<ExportInfo> Parse(const v1::Export& in, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.name(), at / "name"));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.path(), at / "path", kMaxText));
  ONECOPY_RETURN_IF_ERROR(CheckText(in.node(), at / "node"));
  return ExportInfo{in.node(), in.name(), in.path(), in.read(), in.write()};
}

void Print(const ExportInfo& value, v1::Export* out) {
  out->set_name(ToUtf8(value.name));
  out->set_path(ToUtf8(value.path));
  out->set_read(value.read);
  out->set_write(value.write);
  out->set_node(ToUtf8(value.node));
}

}  // namespace onecopy::codec
