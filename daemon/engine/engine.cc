#include "daemon/engine/engine.h"

#include <malloc.h>

#include <future>
#include <set>
#include <utility>

#include "daemon/engine/arrivals/arrivals.h"
#include "daemon/engine/arrivals/messages.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/base/owners.h"
#include "daemon/engine/client_service.h"
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
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/exports.h"
#include "daemon/engine/registry/files.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/engine/registry/openings.h"
#include "daemon/engine/registry/request_memory.h"
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
#include "daemon/engine/transfers/bundles.h"
#include "daemon/engine/transfers/coordinator.h"
#include "daemon/engine/transfers/destinations.h"
#include "daemon/engine/transfers/moves.h"
#include "daemon/engine/transfers/remote_transfers.h"
#include "daemon/engine/transfers/series.h"
#include "daemon/engine/transfers/sources.h"
#include "daemon/engine/transfers/tally.h"
#include "daemon/engine/transfers/transfers.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"
#include "transport/core/direct_file_copier.h"
#include "transport/core/file_copier.h"
#include "transport/os/machine.h"

namespace onecopy::engine {
namespace {

constexpr std::chrono::seconds kReportPatience{2};

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

// In order of creation; destroyed the other way round, after the loop's thread has ended.
struct Engine::State {
  State(Options options, std::vector<std::unique_ptr<Memory>> memories_in,
        std::vector<std::unique_ptr<Link>> links_in, std::vector<std::unique_ptr<Store>> stores_in,
        PeerDialer& dialer)
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
        slabs(context, sessions),
        buffers(context, sessions, slabs, request_memory),
        files(context, sessions, buffers),
        grants(context, owners, sessions),
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
        tickets(context, buffers, grants),
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
        series(context, owners, peers, transfers, remote_transfers),
        moves({context, catalog, peers, {connections, registrations}, slots, planning, series},
              importer),
        sources({connections,
                 tickets,
                 remote_transfers,
                 series,
                 {context, peers, transfers, buffers, registrations, slots, checksums, exporter}}),
        destinations({grants,
                      tickets,
                      series,
                      planning,
                      probes,
                      {context, peers, transfers, buffers, arrivals, checksums, path_rates,
                       rate_watch, moves}}),
        bundles({context, peers, probes, buffers, arrivals, transfers, series, destinations}),
        orders(context, nodes, transfers, remote_transfers, series, request_memory),
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
        ring_routes(
            {context, buffers, grants, tickets, peers, connections, planning, remote_routes}),
        ring_receipts(context, transfers, buffers, arrivals, long_rates),
        rings({context, sessions, buffers, grants, peers, openings, ring_routes, ring_receipts,
               tally, ring_thread},
              context.options.ring_spin),
        removal({owners, buffers, grants, mappings, rings, openings, exporter}),
        self({context,  owners,       peers,     connections, tickets,     exports,
              buffers,  grants,       inventory, messages,    transfers,   remote_transfers,
              sources,  destinations, bundles,   probe_slabs, ring_server, openings,
              exporter, importer,     removal}),
        drain({context, rings, openings, transfers, peers}),
        client({context, owners,     sessions,  buffers,          files,  grants,
                views,   inventory,  arrivals,  catalog,          peers,  nodes,
                probes,  path_rates, transfers, remote_transfers, orders, series,
                rings,   openings,   mappings,  removal,          tally,  drain}),
        figures({context, tally, transfers, rings, slots, buffers, peers, probes}) {}

  void Wire();
  void CancelAll(const Status& why);
  // Small transfers of rings from a node, and to it.
  void DropRingRoutes(const std::string& node);
  // Much of what the ledger knows is not kept any more: what malloc keeps of it goes back to the
  // system, once it has really been freed.
  void ReturnMemory();
  // Runs `then` once that is so, or after `patience`.
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
  Slabs slabs;
  Buffers buffers;
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
  Series series;
  Moves moves;
  Sources sources;
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
  bool stopped = false;
  bool returning_memory = false;
};

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
    // Nobody has cancelled what is asked for from now on: there is no such buffer.
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
    // known any more; others' next transfer makes its key anew.
    const Buffer* buffer = grant.read ? buffers.FindById(grant.buffer) : nullptr;
    if (buffer != nullptr) context.EndLeases(buffer->region);
  });
  transfers.OnFinal([this](const TransferRecord& record) {
    tally.Note(record);
    sources.Forget(record.info.id);
    bundles.OnFinal(record);
    series.OnFinal(record);
    exports.EndTransfer(record.info.id);
  });
  transfers.OnForgotten([this](const TransferId& id) {
    remote_transfers.Drop(id);
    sources.Forget(id);  // of one that was given up while its source was being read
    series.OnForgotten(id);
  });
  connections.OnAnsweredClosed([this](uint64_t number, const Status& why) {
    rings.DropConnection(number, why);
    sources.DropConnection(number, why);
  });
  connections.OnReadingClosed([this](const Connection& connection, const Status& why) {
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
                         const NodeCapability& now) { probes.PeerChanged(node, before, now); }});
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

void Engine::State::CancelAll(const Status& why) {
  for (TransferRecord* record : transfers.Running()) {
    if (record->run != nullptr) record->run->Cancel(why);
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

Engine::Engine(Options options, std::vector<std::unique_ptr<Memory>> memories,
               std::vector<std::unique_ptr<Link>> links, PeerDialer& dialer,
               std::vector<std::unique_ptr<Store>> stores)
    : state_(std::make_unique<State>(std::move(options), std::move(memories), std::move(links),
                                     std::move(stores), dialer)) {
  state_->thread.RunSync([this] { state_->Wire(); });
}

Engine::~Engine() { Stop(); }

os::EventLoop& Engine::loop() { return state_->thread.loop(); }
ClientApi& Engine::client() { return state_->client; }
const Ledger& Engine::ledger() const { return state_->context.ledger; }
PeerApi& Engine::node() { return state_->self; }
Sessions& Engine::sessions() { return state_->sessions; }
RingApi& Engine::rings() { return state_->rings; }
SlabApi& Engine::slabs() { return state_->slabs; }
MappingApi& Engine::mappings() { return state_->mappings; }
bool Engine::has_stores() const { return !state_->stores.empty(); }
Status Engine::AdmitPeer(const std::string& node, bool local) {
  return state_->peers.Admit(node, local);
}

void Engine::Start(const std::string& address) {
  loop().Post([state = state_.get(), address] { state->peers.Start(address); });
}

void Engine::ReadFigures(UniqueFunction<void(Figures)> reply) {
  loop().Post(
      [state = state_.get(), reply = std::move(reply)]() mutable { reply(state->figures.Read()); });
}

void Engine::SetPeers(std::vector<PeerOptions> peers) {
  loop().Post([state = state_.get(), peers = std::move(peers)] { state->peers.Configure(peers); });
}

void Engine::SetExports(std::vector<ExportOptions> exports) {
  loop().Post([state = state_.get(), exports = std::move(exports)]() mutable {
    state->exports.Configure(std::move(exports));
  });
}

void Engine::Drain(Task done) {
  loop().Post([state = state_.get(), done = std::move(done)]() mutable {
    state->context.draining = state->context.ending = true;
    state->context.draining_since = std::chrono::system_clock::now();
    state->rings.Drain(true);
    state->openings.CloseAll(
        {Code::kUnavailable, reasons::kDraining,
         "node " + state->context.node() + " is shutting down and takes no new transfers"});
    state->mappings.EndAll(
        {Code::kUnavailable, reasons::kDraining,
         "node " + state->context.node() + " is shutting down, and its buffers go with it"});
    log::Info("draining", {{"transfers", std::to_string(state->transfers.running())}});
    const auto timer = state->context.loop.RunAfter(state->context.options.drain_timeout, [state] {
      state->CancelAll(
          {Code::kUnavailable, reasons::kDraining,
           "node " + state->context.node() + " is shutting down and its drain time is over"});
    });
    state->transfers.OnIdle([state, timer, done = std::move(done)]() mutable {
      state->context.loop.CancelTimer(timer);
      // The other nodes should hear how the last transfers ended, and that they read here no more.
      state->When(
          [state] { return state->context.reports_under_way == 0 && !state->openings.any(); },
          kReportPatience, std::move(done));
    });
  });
}

void Engine::Stop() {
  if (state_ == nullptr || std::exchange(state_->stopped, true)) return;
  State* state = state_.get();
  // Every transfer lets go of what it uses before what it uses goes.
  std::promise<void> idle;
  loop().Post([state, &idle] {
    state->context.draining = state->context.ending = state->context.stopping = true;
    state->CancelAll(
        {Code::kUnavailable, reasons::kDraining, "node " + state->context.node() + " is stopping"});
    state->transfers.OnIdle([state, &idle] {
      // Who does not wait for draining has not waited for this, either.
      const auto reported = [state] { return state->context.reports_under_way == 0; };
      state->When(reported, kReportPatience, [state, &idle] {
        state->peers.Stop();
        state->probe_slabs.CloseAll();
        state->probes.Stop([&idle] { idle.set_value(); });
      });
    });
  });
  idle.get_future().wait();
  // What is under way needs its links to end.
  state->thread.RunSync([state] { state->rings.Clear(); });
  for (const auto& link : state->links) link->Shutdown();
  state->thread.RunSync([state] {
    state->openings.Clear();
    state->sources.Clear();
    state->exporter.Clear();
    state->importer.Clear();
    state->connections.Clear();
    state->slots.Clear();
    state->slabs.Clear();
    state->mappings.Clear();
    state->buffers.Clear();
  });
  state->context.ledger.OnFall(nullptr);
  state->thread.StopAndJoin();
  state->workers.StopAndJoin();
}

}  // namespace onecopy::engine
