#include "client/cli/output/document.h"
#include "client/cli/output/time.h"

namespace onecopy::cli {
namespace {

Json ViabilityToJson(const Viability& viability) {
  return {{"viable", viability.viable},
          {"reason", viability.reason},
          {"detail", viability.detail},
          {"remedy", viability.remedy}};
}

Json AttributesToJson(const std::map<std::string, std::string>& attributes) {
  Json object = Json::object();
  for (const auto& [name, value] : attributes) object[name] = value;
  return object;
}

Json MemoryToJson(const MemoryCapability& memory) {
  return {{"kind", memory.kind},
          {"device", memory.device},
          {"name", memory.name},
          {"address", memory.address},
          {"ordinal", memory.ordinal},
          {"total_bytes", memory.total_bytes},
          {"cpu_addressable", memory.cpu_addressable},
          {"direct_peers", memory.direct_peers},
          {"nvlink_peers", memory.nvlink_peers},
          {"viability", ViabilityToJson(memory.viability)},
          {"attributes", AttributesToJson(memory.attributes)}};
}

Json NicToJson(const NicCapability& nic) {
  Json memories = Json::array();
  for (const NicMemory& memory : nic.memories) {
    memories.push_back({{"kind", memory.kind},
                        {"device", memory.device},
                        {"viability", ViabilityToJson(memory.viability)}});
  }
  return {{"name", nic.name},
          {"address", nic.address},
          {"fabric", nic.fabric},
          {"bytes_per_second", nic.bytes_per_second},
          {"emulated", nic.emulated},
          {"viability", ViabilityToJson(nic.viability)},
          {"memories", std::move(memories)}};
}

Json LinkToJson(const LinkCapability& link) {
  Json nics = Json::array();
  for (const NicCapability& nic : link.nics) nics.push_back(NicToJson(nic));
  return {{"name", link.name},
          {"version", link.version},
          {"version_must_match", link.version_must_match},
          {"rdma", link.rdma},
          {"viability", ViabilityToJson(link.viability)},
          {"nics", std::move(nics)},
          {"attributes", AttributesToJson(link.attributes)}};
}

Json StoreToJson(const StoreCapability& store) {
  return {{"name", store.name},
          {"viability", ViabilityToJson(store.viability)},
          {"attributes", AttributesToJson(store.attributes)}};
}

}  // namespace

Json ToJson(const Topology& topology) {
  Json devices = Json::array();
  Json distances = Json::array();
  for (size_t i = 0; i < topology.devices.size(); ++i) {
    const TopologyDevice& device = topology.devices[i];
    devices.push_back({{"kind", DeviceKindName(device.kind)},
                       {"name", device.name},
                       {"address", device.address},
                       {"numa_node", device.numa_node},
                       {"cpus", device.cpus},
                       {"emulated", device.emulated}});
    Json row = Json::array();
    for (size_t j = 0; j < topology.devices.size(); ++j) {
      row.push_back(i == j ? "X" : DistanceName(topology.Claimed(i, j)));
    }
    distances.push_back(std::move(row));
  }
  return {{"source", topology.source},
          {"virtual_machine", topology.virtual_machine},
          {"devices", std::move(devices)},
          {"distances", std::move(distances)}};
}

Json ToJson(const ProbeInfo& probe) {
  return {{"node", probe.node},
          {"link", probe.link},
          {"source_memory", probe.source_memory},
          {"source_device", probe.source_device},
          {"destination_memory", probe.destination_memory},
          {"destination_device", probe.destination_device},
          {"source_nic", probe.source_nic},
          {"destination_nic", probe.destination_nic},
          {"viability", ViabilityToJson(probe.viability)},
          {"bytes_per_second", probe.bytes_per_second},
          {"latency_seconds", probe.latency_seconds},
          {"time", FormatTime(probe.time)},
          {"expire_time", FormatTime(probe.expire_time)}};
}

Json ToJson(const PathRateInfo& rate) {
  return {{"path", rate.path},
          {"link", rate.link},
          {"source_memory", rate.source_memory},
          {"source_device", rate.source_device},
          {"destination_memory", rate.destination_memory},
          {"destination_device", rate.destination_device},
          {"source_staged", rate.source_staged},
          {"destination_staged", rate.destination_staged},
          {"least_bytes", rate.least_bytes},
          {"bytes_per_second", rate.bytes_per_second},
          {"transfers", rate.transfers},
          {"time", FormatTime(rate.time)}};
}

Json ToJson(const NodeInfo& node) {
  const std::string since = FormatTime(node.since);
  Json document = {{"name", node.name},
                   {"self", node.self},
                   {"state", NodeStateName(node.state)},
                   {"address", node.address},
                   {"boot_id", node.boot_id},
                   {"protocol_min", node.protocol_min},
                   {"protocol_max", node.protocol_max},
                   {"version", node.version},
                   {"reason", node.reason},
                   {"detail", node.detail},
                   {"since", since.empty() ? Json(nullptr) : Json(since)},
                   {"uid_domain", node.uid_domain},
                   {"probes", ListToJson(node.probes)},
                   {"slow_transfers", node.slow_transfers},
                   {"path_rates", ListToJson(node.path_rates)},
                   {"silent_addresses", node.silent_addresses},
                   {"expiries", Json::array()}};
  for (const Expiry& expiry : node.expiries) {
    document["expiries"].push_back({{"what", expiry.what},
                                    {"file", expiry.file},
                                    {"begin_time", FormatTime(expiry.begin_time)},
                                    {"expire_time", FormatTime(expiry.expire_time)}});
  }
  document["accounts"] = Json::array();
  for (const AccountInfo& account : node.accounts) {
    Json charges = Json::array();
    for (const ChargeInfo& charge : account.charges) {
      charges.push_back({{"what", charge.what}, {"count", charge.count}, {"bytes", charge.bytes}});
    }
    document["accounts"].push_back({{"payer", account.payer}, {"charges", std::move(charges)}});
  }
  if (node.metrics) {
    document["metrics"] = {{"address", node.metrics->address},
                           {"viability", ViabilityToJson(node.metrics->viability)}};
  }
  if (node.self) {
    document["conflicts"] = Json::array();
    for (const NameConflict& conflict : node.conflicts) {
      document["conflicts"].push_back({{"name", conflict.name},
                                       {"address", conflict.address},
                                       {"other", conflict.other},
                                       {"told_by", conflict.told_by}});
    }
  }
  if (node.discovery) {
    const DiscoveryInfo& discovery = *node.discovery;
    document["discovery"] = {
        {"kind", discovery.kind},
        {"viability", ViabilityToJson(discovery.viability)},
        {"peers", discovery.peers},
        {"strangers", discovery.strangers},
        {"refused", discovery.refused},
        {"answer_time",
         discovery.answer_time ? Json(FormatTime(*discovery.answer_time)) : Json(nullptr)}};
  }
  if (!node.capabilities.has_value()) return document;
  document["host"] = node.capabilities->host;
  document["memories"] = Json::array();
  document["links"] = Json::array();
  document["stores"] = Json::array();
  for (const auto& memory : node.capabilities->memories) {
    document["memories"].push_back(MemoryToJson(memory));
  }
  for (const auto& link : node.capabilities->links) document["links"].push_back(LinkToJson(link));
  for (const auto& store : node.capabilities->stores) {
    document["stores"].push_back(StoreToJson(store));
  }
  document["topology"] = ToJson(node.capabilities->topology);
  return document;
}

}  // namespace onecopy::cli
