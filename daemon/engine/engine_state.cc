#include "daemon/engine/engine_state.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "onecopy/reasons.h"
#include "transport/os/machine/machine.h"

namespace onecopy::engine {
namespace {

template <typename T>
std::vector<T*> Pointers(const std::vector<std::unique_ptr<T>>& owned) {
  std::vector<T*> pointers;
  pointers.reserve(owned.size());
  for (const auto& one : owned) pointers.push_back(one.get());
  return pointers;
}

std::set<std::string> NamesOf(const std::vector<Link*>& links) {
  std::set<std::string> names;
  for (const Link* link : links) names.insert(link->name());
  return names;
}

}  // namespace

Engine::State::State(Options options, std::vector<std::unique_ptr<Memory>> memories_in,
                     std::vector<std::unique_ptr<Link>> links_in,
                     std::vector<std::unique_ptr<Store>> stores_in, PeerDialer& dialer)
    : memories(std::move(memories_in)),
      links(std::move(links_in)),
      stores(std::move(stores_in)),
      file_copier(options.node),
      direct_file_copier(
          options.node,
          [this](const Place& from, const Place& to) { return context.CopierFor(from, to); }),
      thread("engine"),
      workers(thread.loop()),
      context{options,
              Ledger(options.node, options.limits),
              os::RandomHex(16),
              std::chrono::system_clock::now(),
              thread.loop(),
              workers,
              Pointers(memories),
              Pointers(links),
              Pointers(stores),
              file_copier,
              direct_file_copier},
      sessions(context.node(), context.options.daemon_uid, context.ledger),
      owners(context.node(), [this](const std::string& node) { return peers.UidDomain(node); }),
      request_memory(context),
      records(context),
      held(context),
      slabs(context, sessions),
      buffers(context, sessions, records),
      maker({context, sessions, slabs, records, held, buffers}, request_memory),
      files(context, sessions, buffers),
      grants(context, owners, sessions, records),
      views({context, owners, buffers, grants}),
      mappings({context, owners, sessions, buffers, grants}),
      arrivals(context, buffers),
      messages(context, buffers, grants, arrivals, request_memory),
      catalog(context),
      peers(context, catalog, dialer),
      nodes(context, peers, self),
      connections(context, peers),
      registrations(context, connections),
      slots(context),
      checksums(context, slots),
      tickets(context, buffers, grants, records),
      exports({context, owners, buffers, tickets,
               [this](const TransferId& id) {
                 const TransferRecord* const record = transfers.Find(id);
                 return record != nullptr && !IsFinal(record->info.state);
               }}),
      inventory(context.node(), owners, sessions, buffers, grants, checksums),
      path_rates(context.options.probe_share),
      probes(context, catalog, peers, nodes, connections, path_rates),
      rate_watch(path_rates, probes),
      probe_slabs(context, catalog, connections, probes),
      planning(context, catalog, peers, probes),
      exporter(context, peers, buffers, tickets),
      importer(context),
      transfers(context),
      tally(context.node(), NamesOf(context.links)),
      remote_transfers(context, peers, transfers),
      ordered({context, records, transfers, remote_transfers}),
      series(context, owners, peers, transfers, remote_transfers),
      moves({context, catalog, peers, {connections, registrations}, slots, planning, series},
            importer),
      sources({connections,
               tickets,
               remote_transfers,
               series,
               {context, peers, transfers, buffers, registrations, slots, checksums, exporter}}),
      destination_plans({context, transfers, buffers, grants, planning}),
      resumed_destinations({destination_plans, probes, RunNeeds()}),
      destinations({tickets, series, probes, destination_plans, resumed_destinations, RunNeeds()}),
      bundles({context, peers, probes, buffers, arrivals, transfers, series, destination_plans,
               destinations}),
      orders(context, nodes, transfers, remote_transfers, ordered, series, request_memory),
      openings(context),
      remote_routes({context,
                     peers,
                     planning,
                     probes,
                     catalog,
                     {connections, registrations},
                     {context, peers, importer}}),
      ring_thread(context.options.ring_spin),
      long_rates(transfers, rate_watch),
      push_ends(context, buffers, arrivals, transfers, long_rates),
      ring_server({context, buffers, grants, tickets, connections, registrations, openings,
                   exporter, remote_routes, ring_thread, push_ends}),
      ring_routes({context, buffers, grants, tickets, peers, connections, planning, remote_routes}),
      ring_receipts(context, transfers, buffers, arrivals, long_rates),
      rings({context, sessions, buffers, grants, peers, openings, ring_routes, ring_receipts, tally,
             ring_thread},
            context.options.ring_spin),
      removal({owners, buffers, grants, mappings, rings, openings, exporter}),
      self({context,          owners,      peers,        connections,
            tickets,          exports,     buffers,      maker,
            grants,           inventory,   messages,     transfers,
            remote_transfers, sources,     destinations, resumed_destinations,
            bundles,          probe_slabs, ring_server,  openings,
            exporter,         importer,    removal}),
      drain({context, rings, openings, transfers, peers}),
      client({context, owners,      sessions,  buffers,    maker,     files,
              grants,  views,       inventory, arrivals,   catalog,   peers,
              nodes,   connections, probes,    path_rates, transfers, remote_transfers,
              orders,  series,      rings,     openings,   mappings,  removal,
              tally,   drain,       exports}),
      figures({context, tally, transfers, rings, slots, buffers, held, peers, connections, probes}),
      status({context, catalog, peers, planning, transfers, tally, figures}) {
  context.flows.Configure(context.options.shares);
}

DestinationRun::Needs Engine::State::RunNeeds() {
  return {context,   peers,      transfers,  buffers, arrivals,
          checksums, path_rates, rate_watch, moves,   records};
}

// What one part does when another one's things come or go.
void Engine::State::Wire() {
  auto end = [this](const TransferId& id, const Status& why) {
    TransferRecord* record = transfers.Find(id);
    if (record != nullptr && record->run != nullptr) record->run->Cancel(why);
  };
  context.ledger.OnFall([this] { context.loop.Post([this] { ReturnMemory(); }); });
  sessions.OnClosed([this](const SessionId& session) {
    series.EndSession(session);  // before its buffers end its parts
    rings.EndSession(session);
    arrivals.EndSession(session);
    slabs.EndSession(session);
    mappings.EndSession(session);
    buffers.EndSession(session);
  });
  buffers.OnEvict(end);
  buffers.OnRemoved([this](BufferId buffer, const Status& why) {
    grants.DropBuffer(buffer);
    tickets.DropBuffer(buffer, why);
    if (why.reason() == reasons::kOwnerDied) sources.LoseBuffer(buffer, why);
    exporter.DropBuffer(buffer);
    // What is requested from now on was not cancelled: the buffer does not exist.
    const Status gone = why.code() == Code::kCancelled
                            ? Status(Code::kNotFound, reasons::kBufferNotFound, why.message())
                            : why;
    arrivals.DropBuffer(buffer, gone);
    rings.DropBuffer(buffer, gone);
    openings.DropBuffer(buffer, gone);
    mappings.DropBuffer(buffer, gone);
  });
  grants.OnEnded([this, end](const Grants::Grant& grant, const Status& why) {
    rings.DropGrant(grant.id, why);
    openings.DropGrant(grant.id, why);
    mappings.DropGrant(grant.id, why);
    for (TransferRecord* record : transfers.Running()) {
      const std::vector<GrantId>& rests_on = record->grants;
      if (std::find(rests_on.begin(), rests_on.end(), grant.id) != rests_on.end()) {
        end(record->info.id, why);
      }
    }
    // What earlier transfers left for the next one ends too. Whose node they read from is not
    // known any more; others' next transfer makes its key again.
    const Buffer* buffer = grant.read ? buffers.FindById(grant.buffer) : nullptr;
    if (buffer != nullptr) context.EndLeases(buffer->region);
  });
  transfers.OnFinal([this](const TransferRecord& record) {
    tally.Note(record);
    sources.Forget(record.info.id);
    bundles.OnFinal(record);
    series.OnFinal(record);
    exports.EndTransfer(record.info.id);
    ordered.Forget(record.info.id);
  });
  transfers.OnForgotten([this](const TransferId& id) {
    remote_transfers.Drop(id);
    sources.Forget(id);  // of one that was given up while its source was being read
    series.OnForgotten(id);
    ordered.Forget(id);
  });
  connections.OnAnsweredClosed([this](uint64_t number, const Status& why) {
    rings.DropConnection(number, why);
    sources.DropConnection(number, why);
  });
  connections.OnReadingClosed([this](const Connection& connection, const Status& why) {
    rings.DropReading(connection, why);
    for (TransferRecord* record : transfers.Running()) {
      if (record->run != nullptr) record->run->LoseReading(connection, why);
    }
  });
  peers.Listen(
      {.lost =
           [this](const std::string& node) {
             exporter.PeerLost(node);
             importer.PeerLost(node);
             DropRingRoutes(node);
             remote_transfers.PeerLost(node);
           },
       .gone =
           [this](const std::string& node) {
             tickets.DropNode(node);
             openings.DropPeer(
                 node, {Code::kUnavailable, reasons::kPeerDown, "node " + node + " has gone"});
             remote_transfers.PeerGone(node);
             rings.AddToTally();
             tally.DropPeer(node);
           },
       .distrusted =
           [this](const std::string& node, const Status& why) {
             DropRingRoutes(node);
             connections.DropPeer(node, why);
           },
       .met =
           [this](const std::string& node, bool restarted) {
             if (restarted) {
               exporter.PeerLost(node);
               importer.PeerLost(node);
               DropRingRoutes(node);
               probes.PeerRestarted(node);
               probe_slabs.DropPeer(node);
               tickets.DropNode(node);
               path_rates.PeerRestarted(node);
             }
             remote_transfers.PeerMet(node, restarted);
           },
       .changed = [this](const std::string& node, const NodeCapability& before,
                         const NodeCapability& now) { probes.PeerChanged(node, before, now); },
       .awaited =
           [this] {
             std::set<std::string> nodes = remote_transfers.Deciders();
             for (const TransferRecord* record : transfers.Running()) {
               nodes.insert(record->info.source.node);
             }
             return nodes;
           }});
  for (Store* store : context.stores) {
    store->OnChange([this] { context.loop.Post([this] { catalog.Refresh(); }); });
  }
  for (Link* link : context.links) {
    link->OnChange([this, name = link->name()] {
      context.loop.Post([this, name] {
        catalog.Refresh();
        probes.LinkChanged(name);
        path_rates.LinkChanged(name);
      });
    });
  }
}

void Engine::State::Restore() {
  Restoring restoring({context, records, held, buffers, maker, grants, tickets});
  restoring.Run();
  // Before a peer can ask for them.
  for (const Restoring::Arriving& begun : restoring.TakeArriving()) {
    resumed_destinations.Resume(begun.record, begun.bytes);
  }
  for (const OrderedRecord& begun : restoring.TakeOrdered()) {
    if (ordered.Restore(begun)) orders.Remember(begun);
  }
  held.Watch([this] { return buffers.ToHold(); }, [this](BufferId id) { buffers.Record(id); });
}

void Engine::State::ReturnMemory() {
  constexpr std::chrono::seconds kSoon{1};
  if (std::exchange(returning_memory, true)) return;
  context.loop.RunAfter(kSoon, [this] {
    returning_memory = false;
    Task trim = [] { ::malloc_trim(0); };
    (void)workers.Post("memory", trim);
  });
}

void Engine::State::DropRingRoutes(const std::string& node) {
  const Status why(Code::kUnavailable, reasons::kPeerDown, "node " + node + " does not answer");
  rings.DropPeer(node, why);
  openings.DropPeer(node, why);
}

void Engine::State::LeaveAll(const Status& why) {
  context.stopping = true;
  for (TransferRecord* record : transfers.Running()) {
    if (record->run != nullptr) record->run->Leave(why);
  }
}

void Engine::State::When(std::function<bool()> so, os::Clock::duration patience, Task then) {
  constexpr std::chrono::milliseconds kPause{5};
  if (so() || patience <= os::Clock::duration(0)) return then();
  context.loop.RunAfter(
      kPause, [this, so = std::move(so), patience, kPause, then = std::move(then)]() mutable {
        When(std::move(so), patience - kPause, std::move(then));
      });
}

}  // namespace onecopy::engine
