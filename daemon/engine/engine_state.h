// The parts of the engine, and how each reacts when another one gains or loses something.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/engine/arrivals/arrivals.h"
#include "daemon/engine/arrivals/messages.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/base/owners.h"
#include "daemon/engine/client_service.h"
#include "daemon/engine/engine.h"
#include "daemon/engine/figures_reader.h"
#include "daemon/engine/inventory.h"
#include "daemon/engine/mapping/mappings.h"
#include "daemon/engine/node_drain.h"
#include "daemon/engine/peer_service.h"
#include "daemon/engine/peering/catalog.h"
#include "daemon/engine/peering/connections.h"
#include "daemon/engine/peering/nodes.h"
#include "daemon/engine/peering/peers.h"
#include "daemon/engine/probing/path_rates.h"
#include "daemon/engine/probing/planning.h"
#include "daemon/engine/probing/probe_slabs.h"
#include "daemon/engine/probing/probes.h"
#include "daemon/engine/probing/rate_watch.h"
#include "daemon/engine/registry/buffer_maker.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/exports.h"
#include "daemon/engine/registry/files.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/engine/registry/held_memory.h"
#include "daemon/engine/registry/openings.h"
#include "daemon/engine/registry/records.h"
#include "daemon/engine/registry/request_memory.h"
#include "daemon/engine/registry/restoring.h"
#include "daemon/engine/registry/sessions.h"
#include "daemon/engine/registry/slabs.h"
#include "daemon/engine/registry/tickets.h"
#include "daemon/engine/registry/views.h"
#include "daemon/engine/rings/remote_route.h"
#include "daemon/engine/rings/ring_receipts.h"
#include "daemon/engine/rings/ring_routes.h"
#include "daemon/engine/rings/ring_server.h"
#include "daemon/engine/rings/rings.h"
#include "daemon/engine/sharing/memory_exporter.h"
#include "daemon/engine/sharing/memory_importer.h"
#include "daemon/engine/staging/checksum.h"
#include "daemon/engine/staging/registrations.h"
#include "daemon/engine/staging/slots.h"
#include "daemon/engine/status_reader.h"
#include "daemon/engine/transfers/bundles.h"
#include "daemon/engine/transfers/coordinator.h"
#include "daemon/engine/transfers/destination_plans.h"
#include "daemon/engine/transfers/destinations.h"
#include "daemon/engine/transfers/moves.h"
#include "daemon/engine/transfers/ordered_transfers.h"
#include "daemon/engine/transfers/remote_transfers.h"
#include "daemon/engine/transfers/resumed_destinations.h"
#include "daemon/engine/transfers/series.h"
#include "daemon/engine/transfers/sources.h"
#include "daemon/engine/transfers/tally.h"
#include "daemon/engine/transfers/transfers.h"
#include "transport/core/toolkit/direct_file_copier.h"
#include "transport/core/toolkit/file_copier.h"

namespace onecopy::engine {

// Members are created in this order, and destroyed in reverse after the loop's thread has ended.
struct Engine::State {
  State(Options options, std::vector<std::unique_ptr<Memory>> memories,
        std::vector<std::unique_ptr<Link>> links, std::vector<std::unique_ptr<Store>> stores,
        PeerDialer& dialer);

  void Wire();
  DestinationRun::Needs RunNeeds();
  // Restores what the previous process left, before the daemon serves.
  void Restore();
  // The daemon ends: no new transfer begins, and running ones stop (see Run::Leave).
  void LeaveAll(const Status& why);
  // Ends the routes of rings (clients' shared-memory queues) from that node and to it.
  void DropRingRoutes(const std::string& node);
  // Gives free memory of malloc back to the system, a second later. By then, what the ledger no
  // longer charges for has been freed.
  void ReturnMemory();
  // Runs `then` once `so` returns true, or after `patience`.
  void When(std::function<bool()> so, os::Clock::duration patience, Task then);

  std::vector<std::unique_ptr<Memory>> memories;
  std::vector<std::unique_ptr<Link>> links;
  std::vector<std::unique_ptr<Store>> stores;
  FileCopier file_copier;
  DirectFileCopier direct_file_copier;
  os::LoopThread thread;
  Workers workers;
  Context context;
  Sessions sessions;
  Owners owners;
  RequestMemory request_memory;
  Records records;
  HeldMemory held;
  Slabs slabs;
  Buffers buffers;
  BufferMaker maker;
  Files files;
  Grants grants;
  Views views;
  Mappings mappings;
  Arrivals arrivals;
  Messages messages;
  Catalog catalog;
  Peers peers;
  Nodes nodes;
  Connections connections;
  Registrations registrations;
  Slots slots;
  Checksums checksums;
  Tickets tickets;
  Exports exports;
  Inventory inventory;
  PathRates path_rates;
  Probes probes;
  RateWatch rate_watch;
  ProbeSlabs probe_slabs;
  Planning planning;
  MemoryExporter exporter;
  MemoryImporter importer;
  Transfers transfers;
  Tally tally;
  RemoteTransfers remote_transfers;
  OrderedTransfers ordered;
  Series series;
  Moves moves;
  Sources sources;
  DestinationPlans destination_plans;
  ResumedDestinations resumed_destinations;
  Destinations destinations;
  Bundles bundles;
  Coordinator orders;
  Openings openings;
  RemoteRoutes remote_routes;
  ring::RingThread ring_thread;
  LongRates long_rates;
  PushEnds push_ends;
  RingServer ring_server;
  RingRoutes ring_routes;
  RingReceipts ring_receipts;
  Rings rings;
  Removal removal;
  PeerService self;
  NodeDrain drain;
  ClientService client;
  FiguresReader figures;
  StatusReader status;
  bool stopped = false;
  bool returning_memory = false;
};

}  // namespace onecopy::engine
