// What a daemon tells.
#include <algorithm>
#include <chrono>

#include "client/doctor/gather.h"
#include "client/doctor/gather_parts.h"
#include "onecopy/client.h"

namespace onecopy::doctor {
namespace {

constexpr size_t kMaxPeers = 64;

// What a link says of a network device that cannot read some GPU's memory; what it says can be is
// no proof by itself.
void AddRefusals(const NodeCapability& node, std::vector<Probe>& probes) {
  for (const LinkCapability& link : node.links) {
    if (!link.rdma || !link.viability.viable) continue;
    for (const NicCapability& nic : link.nics) {
      for (const NicMemory& memory : nic.memories) {
        if (memory.viability.viable) continue;
        Probe probe;
        probe.link = link.name;
        probe.nic = nic.name;
        probe.memory = memory.kind;
        probe.peer_memory = memory.kind;
        probe.emulated = nic.emulated;
        probe.reason = memory.viability.reason;
        probe.detail = memory.viability.detail;
        probes.push_back(std::move(probe));
      }
    }
  }
}

// The daemon's UCX may be another one than this process finds.
void AddUcx(const NodeCapability& node, Ucx& ucx) {
  const LinkCapability* link = node.FindLink("ucx");
  if (link == nullptr || !link->attributes.contains("library")) return;
  ucx.found = true;
  ucx.version = link->version;
  const std::string& library = link->attributes.at("library");
  if (library.starts_with('/')) ReadUcxModules(library, ucx);
}

const NicCapability* FindNic(const NodeCapability& node, const std::string& link,
                             const std::string& name) {
  const LinkCapability* found = node.FindLink(link);
  if (found == nullptr) return nullptr;
  for (const NicCapability& nic : found->nics) {
    if (nic.name == name) return &nic;
  }
  return nullptr;
}

// What is not known for sure to be hardware counts as emulated. All lanes together are hardware
// where every device that the link uses is.
bool Emulated(const NodeCapability& node, const std::string& link, const std::string& name) {
  if (!name.empty()) {
    const NicCapability* nic = FindNic(node, link, name);
    return nic == nullptr || nic->emulated;
  }
  const LinkCapability* found = node.FindLink(link);
  bool any = false;
  if (found == nullptr) return true;
  for (const NicCapability& nic : found->nics) {
    if (!nic.viability.viable) continue;
    any = true;
    if (nic.emulated) return true;
  }
  return !any;
}

uint64_t RateOf(const NodeCapability& node, const std::string& link, const std::string& name) {
  const NicCapability* nic = FindNic(node, link, name);
  return nic == nullptr ? 0 : nic->bytes_per_second;
}

bool CarriesLanes(const Probe& probe, const std::vector<TransferInfo>& transfers) {
  for (const TransferInfo& transfer : transfers) {
    if (transfer.receipt.link != probe.link || transfer.source.node != probe.peer) continue;
    for (const LaneBytes& lane : transfer.receipt.lanes) {
      if (!probe.nic.empty() && lane.device == probe.nic) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<Probe> ProbesFrom(const NodeInfo& node, const NodeCapability& own,
                              const std::vector<TransferInfo>& transfers, WallTime now) {
  std::vector<Probe> probes;
  if (!node.capabilities) return probes;
  const NodeCapability& theirs = *node.capabilities;
  for (const ProbeInfo& info : node.probes) {
    const LinkCapability* link = own.FindLink(info.link);
    if (link == nullptr || !link->rdma || info.expire_time <= now) continue;
    if (info.link == "ucx" && own.host == theirs.host) continue;
    Probe probe;
    probe.link = info.link;
    probe.nic = info.destination_nic;
    probe.peer = node.self ? "" : node.name;
    probe.peer_nic = info.source_nic;
    probe.memory = info.destination_memory;
    probe.peer_memory = info.source_memory;
    probe.emulated =
        Emulated(own, info.link, probe.nic) || Emulated(theirs, info.link, probe.peer_nic);
    probe.viable = info.viability.viable;
    probe.reason = info.viability.reason;
    probe.detail = info.viability.detail;
    probe.bytes_per_second = static_cast<uint64_t>(info.bytes_per_second);
    probe.expected_bytes_per_second =
        std::min(RateOf(own, info.link, probe.nic), RateOf(theirs, info.link, probe.peer_nic));
    probe.used = CarriesLanes(probe, transfers);
    probes.push_back(std::move(probe));
  }
  return probes;
}

void AddDaemon(const GatherOptions& options, Facts& facts) {
  ConnectOptions connect;
  connect.run_dir = options.run_dir;
  connect.program = options.program;
  auto client = Client::Connect(connect);
  if (!client.ok()) {
    facts.daemon.why_not = client.status().message();
    return;
  }
  auto own = client->GetNode();
  auto nodes = client->ListNodes();
  if (!own.ok() || !nodes.ok()) {
    facts.daemon.why_not = (own.ok() ? nodes.status() : own.status()).message();
    return;
  }
  facts.daemon.answered = true;
  facts.daemon.run_dir = client->run_dir();
  facts.daemon.capabilities = own->capabilities.value_or(NodeCapability());
  facts.daemon.now = std::chrono::system_clock::now();
  if (own->metrics) facts.daemon.metrics = own->metrics->viability;
  facts.daemon.conflicts = own->conflicts;
  facts.daemon.discovery = own->discovery;
  facts.daemon.draining = own->state == NodeState::kDraining;
  for (const onecopy::Expiry& expiry : own->expiries) {
    facts.daemon.expiries.push_back(
        {expiry.what, expiry.file, expiry.begin_time, expiry.expire_time});
  }
  if (!facts.daemon.capabilities.topology.source.empty()) {
    // The daemon's may come from a file, which is believed more than the machine.
    facts.topology = facts.daemon.capabilities.topology;
  }
  AddUcx(facts.daemon.capabilities, facts.ucx);
  AddRefusals(facts.daemon.capabilities, facts.probes);
  const std::vector<TransferInfo> none;
  const auto listed = client->ListTransfers();
  const std::vector<TransferInfo>& transfers = listed.ok() ? *listed : none;
  const auto add_probes = [&](const NodeInfo& node) {
    for (Probe& probe :
         ProbesFrom(node, facts.daemon.capabilities, transfers, std::chrono::system_clock::now())) {
      facts.probes.push_back(std::move(probe));
    }
  };
  add_probes(*own);
  for (const NodeInfo& node : *nodes) {
    if (node.self || facts.daemon.peers.size() == kMaxPeers) continue;
    Peer peer;
    peer.name = node.name;
    peer.connected = node.state == NodeState::kConnected;
    if (const auto full = client->GetNode(node.name); full.ok() && full->capabilities) {
      peer.capabilities = *full->capabilities;
      add_probes(*full);
      for (const std::string& address : full->silent_addresses) {
        facts.daemon.silent_addresses.emplace_back(node.name, address);
      }
    }
    facts.daemon.peers.push_back(std::move(peer));
  }
}

}  // namespace onecopy::doctor
