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

}  // namespace

Result<NodeCapability> Parse(const v1::Capabilities& in, const std::string& node, const Field& at) {
  ONECOPY_RETURN_IF_ERROR(CheckText(in.host(), at / "host"));
  NodeCapability value;
  value.node = node;
  value.host = in.host();
  ONECOPY_ASSIGN_OR_RETURN(value.memories, ParseEach(in.memories(), at / "memories", ParseMemory));
  ONECOPY_ASSIGN_OR_RETURN(value.links, ParseEach(in.links(), at / "links", ParseLink));
  ONECOPY_ASSIGN_OR_RETURN(value.stores, ParseEach(in.stores(), at / "stores", ParseStore));
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
}

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
}

void Print(const engine::Page<engine::NodeInfo>& value, v1::ListNodesResponse* out) {
  for (const engine::NodeInfo& node : value.items) {
    v1::Node* node_out = out->add_nodes();
    Print(node, node_out);
    node_out->clear_capabilities();
  }
  out->set_next_page_token(ToUtf8(value.next_token));
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

Result<std::string> Parse(const v1::ReleaseDeviceRequest& in) {
  return ParseName(in.device(), Field() / "device");
}

Result<std::string> Parse(const v1::SetLogLevelRequest& in) {
  return ParseName(in.level(), Field() / "level");
}

}  // namespace onecopy::rpc
