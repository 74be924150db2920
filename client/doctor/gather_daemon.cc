// What a daemon tells.
#include "client/doctor/gather.h"
#include "client/doctor/gather_parts.h"
#include "onecopy/client.h"

namespace onecopy::doctor {
namespace {

constexpr size_t kMostPeers = 64;

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

}  // namespace

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
  if (!facts.daemon.capabilities.topology.source.empty()) {
    // The daemon's may come from a file, which is believed more than the machine.
    facts.topology = facts.daemon.capabilities.topology;
  }
  AddUcx(facts.daemon.capabilities, facts.ucx);
  AddRefusals(facts.daemon.capabilities, facts.probes);
  for (const NodeInfo& node : *nodes) {
    if (node.self || facts.daemon.peers.size() == kMostPeers) continue;
    Peer peer;
    peer.name = node.name;
    peer.connected = node.state == NodeState::kConnected;
    if (const auto full = client->GetNode(node.name); full.ok() && full->capabilities) {
      peer.capabilities = *full->capabilities;
    }
    facts.daemon.peers.push_back(std::move(peer));
  }
}

}  // namespace onecopy::doctor
