#include "daemon/engine/figures_reader.h"

#include <algorithm>
#include <utility>

namespace onecopy::engine {

Figures FiguresReader::Read() {
  const Context& context = needs_.context;
  needs_.rings.AddToTally();
  Figures figures;
  figures.node = context.node();
  figures.version = context.options.version;
  figures.start_time = context.started;
  figures.draining = context.draining;
  figures.holder_lost = needs_.held.lost();
  figures.transfers = needs_.tally.figures();
  figures.running = needs_.transfers.running();
  figures.rings = context.ledger.count(Charged::kRings);
  figures.ring_routes = context.ledger.count(Charged::kRoutes);
  figures.sessions = context.ledger.count(Charged::kSessions);
  figures.mappings = context.ledger.count(Charged::kMappings);
  figures.send_slots = needs_.slots.FiguresOf(Purpose::kSend);
  figures.receive_slots = needs_.slots.FiguresOf(Purpose::kReceive);
  figures.buffers = needs_.buffers.figures();
  figures.peers = needs_.peers.figures();
  figures.slow_transfers_inside = needs_.probes.slow_transfers(context.node());
  AddProbes(context.node(), figures.probes);
  for (PeerFigures& peer : figures.peers.peers) {
    peer.slow_transfers = needs_.probes.slow_transfers(peer.name);
    peer.silent_addresses = needs_.connections.SilentAddresses(peer.name);
    if (peer.connected) AddProbes(peer.name, figures.probes);
  }
  figures.probes_succeeded = needs_.probes.measured();
  figures.probes_failed = needs_.probes.failed();
  figures.quotas = context.ledger.Quotas();
  if (context.options.expiries) figures.expiries = context.options.expiries();
  figures.conflicts = needs_.peers.conflicts();
  if (context.options.discovery) {
    DiscoveryState discovery = context.options.discovery();
    figures.discovery = std::move(discovery.info);
    AddConflicts(std::move(discovery.conflicts), figures.conflicts);
  }
  return figures;
}

void FiguresReader::AddProbes(const std::string& node, std::map<ProbeKey, double>& probes) const {
  for (const ProbeInfo& probe : needs_.probes.Describe(node)) {
    const bool all_lanes = probe.source_nic.empty() && probe.destination_nic.empty();
    if (!all_lanes || !probe.viability.viable || probes.size() >= kMaxProbesTold) continue;
    double& fastest =
        probes[{probe.link, node, probe.source_memory + "-" + probe.destination_memory}];
    fastest = std::max(fastest, probe.bytes_per_second);
  }
}

}  // namespace onecopy::engine
