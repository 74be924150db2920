// The composition root: reads the configuration, opens the backends that this build has, and joins
// the engine with its sockets. Nothing here knows any backend by name.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/attach/attach_server.h"
#include "daemon/command_line.h"
#include "daemon/config/config.h"
#include "daemon/config/sections.h"
#include "daemon/configured.h"
#include "daemon/discovered_peers.h"
#include "daemon/engine/engine.h"
#include "daemon/log/audit.h"
#include "daemon/log/log.h"
#include "daemon/open_holder.h"
#include "daemon/reloader.h"
#include "daemon/rpc/grpc/grpc_log.h"
#include "daemon/rpc/identity/tls.h"
#include "daemon/rpc/outgoing/dialer.h"
#include "daemon/rpc/serving/api_server.h"
#include "daemon/rpc/serving/peer_server.h"
#include "daemon/rundir/run_dir.h"
#include "daemon/schema.h"
#include "daemon/served_metrics.h"
#include "daemon/service.h"
#include "daemon/startup.h"
#include "daemon/version.h"
#include "transport/core/base/exit_status.h"
#include "transport/core/contracts/backend.h"
#include "transport/os/memory/fault_guard.h"
#include "transport/os/sockets/host_port.h"
#include "transport/shim/cuda.h"
#include "transport/shim/ucx.h"
#include "transport/topology/topology_file.h"

namespace onecopy {
namespace {

template <typename Interface>
Result<std::vector<std::unique_ptr<Interface>>> Open(std::vector<Backend<Interface>>& backends,
                                                     const Configured& configured,
                                                     const Topology& topology) {
  const config::Config& config = configured.config;
  std::vector<std::unique_ptr<Interface>> opened;
  for (Backend<Interface>& backend : backends) {
    BackendContext context;
    context.node = config.name;
    context.settings = config.backends.at(backend.name);
    if (!backend.library.empty()) context.library = config.libraries.at(backend.library);
    context.libraries = config.libraries;
    for (const os::HostPort& lanes : config.LanesAddresses()) {
      context.lanes.push_back(lanes.ToString());
    }
    if (backend.rdma) context.rdma = config.backends.at("rdma");
    context.peers_authenticated = config.tls.enabled();
    context.trust = configured.trust;
    context.lanes_plain = config.tls.lanes_plain;
    context.topology = topology;
    ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<Interface> one, backend.create(context));
    opened.push_back(std::move(one));
  }
  return opened;
}

Status OpenLog(const config::Config& config) {
  const log::Format format = config.log_format == config::LogFormat::kText ? log::Format::kText
                             : config.log_format == config::LogFormat::kJournal
                                 ? log::Format::kJournal
                                 : log::Format::kAuto;
  ONECOPY_RETURN_IF_ERROR(log::Open(format));
  rpc::RedirectGrpcLog([](const std::string& message) {
    log::Warning("gRPC failed", {{"why", message}});
  });
  ONECOPY_RETURN_IF_ERROR(log::SetLevel(config.log_level).status());
  ONECOPY_ASSIGN_OR_RETURN(const audit::Level level,
                           audit::ParseLevel(config::AuditLevels()[config.audit_level]));
  return audit::Open({level, config.audit_most_per_minute, config.audit_file});
}

// A machine that cannot be read is none that nothing can be moved on: its distances are unknown
// then.
Topology TopologyOf(const Configured& configured) {
  if (configured.topology) return *configured.topology;
  Result<Topology> topology = LoadTopology({});
  if (topology.ok()) return *std::move(topology);
  log::Warning("the topology of this machine is unknown", {{"why", topology.status().ToString()}});
  return {};
}

// When parts of the identity expire, for callers of the daemon.
std::vector<Expiry> ExpiriesOf(const tls::Trust& trust) {
  std::vector<Expiry> all;
  for (const tls::Expiry& expiry : trust.Now().identity->expiries()) {
    all.push_back({expiry.what, expiry.file, expiry.since, expiry.when});
  }
  return all;
}

engine::Limit LimitOf(const config::Limit& limit) { return {limit.each, limit.total}; }

engine::Limits EngineLimits(const config::Limits& limits) {
  engine::Limits mapped;
  mapped.memory = LimitOf(limits.memory);
  mapped.sessions = LimitOf(limits.sessions);
  mapped.namespaces = LimitOf(limits.namespaces);
  mapped.connections = LimitOf(limits.connections);
  mapped.requests = LimitOf(limits.requests);
  mapped.descriptors = LimitOf(limits.descriptors);
  mapped.buffers = LimitOf(limits.buffers);
  mapped.grants = LimitOf(limits.grants);
  mapped.transfers = LimitOf(limits.transfers);
  mapped.rings = LimitOf(limits.rings);
  mapped.routes = LimitOf(limits.routes);
  mapped.openings = LimitOf(limits.openings);
  mapped.files = LimitOf(limits.files);
  mapped.files_of_one = {std::max<uint64_t>(limits.files.each / 2, 1), limits.files.total};
  mapped.arrivals = LimitOf(limits.arrivals);
  mapped.arrivals_per_buffer = limits.arrivals_per_buffer;
  mapped.watches = LimitOf(limits.watches);
  mapped.slabs = LimitOf(limits.slabs);
  mapped.mappings = LimitOf(limits.mappings);
  mapped.request_ids = LimitOf(limits.request_ids);
  mapped.request_memory = limits.request_memory;
  mapped.reserved_percent = limits.reserved_percent;
  return mapped;
}

engine::Options EngineOptions(const Configured& configured, Topology topology) {
  const config::Config& config = configured.config;
  engine::Options options;
  options.node = config.name;
  options.version = kVersion;
  options.uid_domain = config.uid_domain;
  options.loopback_only = os::IsLoopback(config.listen.host);
  options.names_proven = config.tls.enabled();
  options.daemon_uid = ::getuid();
  options.peers = PeersOf(config);
  options.exports = ExportsOf(config);
  options.shares = SharesOf(config);
  options.heartbeat = config.heartbeat;
  options.reconnect_delay_min = config.reconnect_delay_min;
  options.reconnect_delay_max = config.reconnect_delay_max;
  options.stall_timeout = config.stall_timeout;
  options.resume_for = config.resume_for;
  options.drain_timeout = config.drain_timeout;
  options.keep_transfers = config.keep_transfers;
  options.limits = EngineLimits(config.limits);
  options.topology = std::move(topology);
  options.probe_bytes = config.probe_bytes;
  options.probe_share = config.probe_share_permille / 1000.0;
  options.probe_jitter = config.probe_jitter_percent / 100.0;
  options.probe_wait = config.probe_wait;
  options.probe_limit = config.probe_limit;
  options.probe_lifetime = config.probe_lifetime;
  options.probe_retry = config.probe_retry;
  options.slot_bytes = config.slot_bytes;
  options.slots = config.slots;
  options.ring_spin = config.ring_spin;
  if (configured.trust) {
    options.expiries = [trust = configured.trust] { return ExpiriesOf(*trust); };
  }
  options.set_log_level = [](const std::string& level) { return log::SetLevel(level); };
  return options;
}

// Ends what serves, in the order in which nothing can ask what is gone: clients, peers, engine.
void DrainAndStop(engine::Engine& engine, attach::AttachServer& attach,
                  const std::vector<rpc::ApiServer*>& apis, rpc::PeerServer& peers,
                  ServedMetrics& metrics, DiscoveredPeers& discovered,
                  std::chrono::milliseconds drain_timeout) {
  TellStopping(drain_timeout + std::chrono::seconds(15));
  for (rpc::ApiServer* api : apis) api->Drain();
  peers.Drain();
  auto drained = std::make_shared<std::promise<void>>();
  std::future<void> waiting = drained->get_future();
  auto once = std::make_shared<std::atomic<bool>>(false);
  auto end_waiting = [drained, once] {
    if (!once->exchange(true)) drained->set_value();
  };
  engine.Drain(end_waiting);
  OnNextSignal([end_waiting] {
    log::Warning("a second signal to stop: the daemon no longer waits for running transfers");
    end_waiting();
  });
  waiting.wait();
  discovered.Stop();
  attach.Stop();
  for (rpc::ApiServer* api : apis) api->Stop();
  metrics.Stop();
  engine.Stop();
  peers.Stop();
}

// Until it is told to stop; returns by which signal.
int ServeUntilTold(Reloader& reloader, const std::string& status) {
  while (true) {
    reloader.Turn();
    const int signal = WaitForSignal(reloader.UntilTurn());
    if (signal == SIGTERM || signal == SIGINT) return signal;
    if (signal != SIGHUP) continue;
    TellReloading();
    reloader.Reload();
    TellReady(status);
  }
}

Status Serve(const CommandLine& line, Backends& backends, const config::Schema& schema,
             const Configured& configured) {
  auto guard = std::make_unique<StartupGuard>();
  ONECOPY_RETURN_IF_ERROR(CheckDescriptors());
  const config::Config& config = configured.config;
  Topology topology = TopologyOf(configured);
  ONECOPY_ASSIGN_OR_RETURN(const RunDir run_dir, RunDir::Claim(config.run_dir));
  const rpc::Credentials credentials =
      configured.trust ? rpc::MutualTls(configured.trust) : rpc::PlainText();

  os::FaultGuard::Install();  // before libraries have handlers of their own
  const SignalHandlers handlers;
  // First, and given back at once: of two daemons' ports the taken one is named that was set. The
  // lanes' port follows from it.
  if (const auto peers_port = os::ListenTcp(config.listen, 1); !peers_port.ok()) {
    return peers_port.status().WithContext("peers (--listen)");
  }
  ONECOPY_ASSIGN_OR_RETURN(auto memories, Open(backends.memories, configured, topology));
  ONECOPY_ASSIGN_OR_RETURN(auto links, Open(backends.links, configured, topology));
  ONECOPY_ASSIGN_OR_RETURN(auto stores, Open(backends.stores, configured, topology));
  for (const std::string& signal : handlers.Restore()) {
    log::Info("a library's signal handler was removed", {{"signal", signal}});
  }
  // Whatever its ports are now. Links list their devices once: one that comes later is there after
  // the next start, which ends all sessions.
  const bool takes_dma_bufs = std::any_of(links.begin(), links.end(), [](const auto& link) {
    return link->Describe().Reaches("dmabuf");
  });
  ONECOPY_ASSIGN_OR_RETURN(const std::unique_ptr<holder::HolderClient> holder,
                           OpenHolder(config, run_dir.path()));
  rpc::Dialer dialer(credentials);
  ServedMetrics metrics(config);
  engine::Options options = EngineOptions(configured, std::move(topology));
  options.holder = holder.get();
  options.metrics = [&metrics] { return metrics.Info(); };
  DiscoveredPeers discovered(configured);
  options.discovery = [&discovered] { return discovered.State(); };
  engine::Engine engine(std::move(options), std::move(memories), std::move(links), dialer,
                        std::move(stores));
  dialer.AnswerOn(engine.loop());
  // For all callers, on all sockets: payers take turns.
  const engine::Turns turns(engine.loop());

  auto report = [](const char* what) {
    return [what](const Status& status) { log::Warning(what, {{"why", status.ToString()}}); };
  };
  rpc::PeerServerOptions peer_options;
  peer_options.node = config.name;
  peer_options.listen = config.listen;
  peer_options.credentials = credentials;
  peer_options.admit = [&engine](const std::string& node, bool local) {
    return engine.AdmitPeer(node, local);
  };
  peer_options.report = report("a connection to the peers' port was refused or ended");
  peer_options.ledger = engine.ledger();
  peer_options.most_health_watches = config.limits.health_watches;
  ONECOPY_ASSIGN_OR_RETURN(const auto peers,
                           rpc::PeerServer::Start(std::move(peer_options), turns, engine.node()));
  rpc::ApiServerOptions api_options;
  api_options.ledger = engine.ledger();
  const auto namespace_names = std::make_shared<os::NamespaceNames>();
  api_options.path = run_dir.ApiSocket();
  api_options.node = config.name;
  api_options.version = kVersion;
  api_options.namespace_names = namespace_names;
  api_options.most_health_watches = config.limits.health_watches;
  api_options.reflection = config.reflection;
  api_options.report = report("a client's connection was refused or ended");
  std::unique_ptr<rpc::ApiServer> network_api;
  if (config.api_listen) {
    rpc::ApiServerOptions network;
    // Credentials of its own: each asks its credentials for the files once.
    network.network = {*config.api_listen, rpc::MutualTls(configured.trust)};
    network.node = api_options.node;
    network.version = api_options.version;
    network.ledger = engine.ledger();
    network.most_health_watches = api_options.most_health_watches;
    network.report = report("a connection to api_listen was refused or ended");
    ONECOPY_ASSIGN_OR_RETURN(
        network_api,
        rpc::ApiServer::Start(std::move(network), turns, engine.client(), engine.sessions()));
  }
  ONECOPY_ASSIGN_OR_RETURN(
      const auto api,
      rpc::ApiServer::Start(std::move(api_options), turns, engine.client(), engine.sessions()));
  std::vector<rpc::ApiServer*> apis = {api.get()};
  if (network_api) apis.push_back(network_api.get());
  attach::Options attach_options;
  attach_options.most_per_uid = config.limits.sessions.total;  // sessions of one user: the engine
  attach_options.path = run_dir.AttachSocket();
  attach_options.node = config.name;
  attach_options.version = kVersion;
  attach_options.files = engine.has_stores();
  attach_options.takes_dma_bufs = takes_dma_bufs;
  attach_options.keeps_buffers = holder != nullptr;
  attach_options.namespace_names = namespace_names;
  attach_options.report = report("a client was refused");
  ONECOPY_ASSIGN_OR_RETURN(
      const auto attach,
      attach::AttachServer::Start(std::move(attach_options), turns, engine.sessions(),
                                  &engine.rings(), &engine.slabs(), &engine.mappings()));

  engine.Start(discovered.OwnAddress(peers->address().ToString()));
  discovered.Start(engine, peers->address().ToString());
  BeginWatchdog(engine.loop());
  guard.reset();
  metrics.Start(engine, configured.trust);
  const std::string ready = "name=" + config.name + " listen=" + peers->address().ToString() +
                            " run-dir=" + run_dir.path() +
                            (network_api ? " api=" + network_api->address().ToString() : "") +
                            metrics.ReadyText();
  std::printf("ready %s\n", ready.c_str());
  std::fflush(stdout);
  const std::string status = "Serving: " + ready;
  TellReady(status);
  if (!config.tuned.empty())
    log::Info("settings that the configuration does not set are taken from measurements",
              {{"file", config.tuned}});
  log::Info("serving",
            {{"name", config.name},
             {"listen", peers->address().ToString()},
             {"run_dir", run_dir.path()},
             {"api_listen", network_api ? network_api->address().ToString() : "none"},
             {"metrics", metrics.Info().viability.viable ? metrics.Info().address : "none"},
             {"holder", config.holder},
             {"tls", config.tls.enabled() ? "mutual" : "none"},
             {"version", kVersion}});

  TellOwnLimits(config.slot_bytes * config.slots);

  Reloader reloader(line, schema, configured, engine, discovered);
  const int signal = ServeUntilTold(reloader, status);
  log::Info("stopping", {{"signal", signal}});
  DrainAndStop(engine, *attach, apis, *peers, metrics, discovered, config.drain_timeout);
  return OkStatus();
}

// Each buffer and each connection has a descriptor: shells begin with a limit of 1024, and let a
// program raise it. Where that fails, the limit stays what it was.
void UseAllDescriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// How it ended. What is wrong in the configuration has one exit status, whatever it is: a service
// manager need not try again before an operator has corrected it.
struct Ended {
  Status status;
  bool wrong_configuration = false;

  int ExitStatus() const {
    return ExitStatusOf(wrong_configuration ? Code::kInvalidArgument : status.code());
  }
};

Ended Run(const CommandLine& line) {
  Backends backends = AllBackends();
  const config::Schema schema = SchemaOf(backends);
  if (line.what == CommandLine::Do::kPrintDefaultConfig) {
    std::fputs(config::PrintDefault(schema).c_str(), stdout);
    return {OkStatus()};
  }
  const Result<Configured> configured = Configure(line, schema);
  if (!configured.ok()) return {configured.status(), true};
  if (Status log = OpenLog(configured->config); !log.ok()) {
    // A thread that cannot be made is not a mistake in the file: the next start may go well.
    const bool wrong = log.code() != Code::kResourceExhausted;
    return {std::move(log), wrong};
  }
  if (line.what == CommandLine::Do::kServe) return {Serve(line, backends, schema, *configured)};
  std::printf("%s: valid, for node %s\n", line.config_file.c_str(),
              configured->config.name.c_str());
  return {OkStatus()};
}

// A backend tries in a process of its own what may crash or hang: `onecopyd backend-probe NAME …`,
// which only the daemon itself calls.
std::optional<int> ProbeOf(const std::vector<std::string>& arguments) {
  if (arguments.size() < 2 || arguments[0] != "backend-probe") return std::nullopt;
  const Backends backends = AllBackends();
  for (const Backend<Store>& store : backends.stores) {
    if (store.name == arguments[1] && store.probe != nullptr) {
      return store.probe({arguments.begin() + 2, arguments.end()});
    }
  }
  std::fprintf(stderr, "onecopyd: no backend %s with a probe\n", arguments[1].c_str());
  return 2;
}

}  // namespace
}  // namespace onecopy

int main(int argc, char** argv) {
  onecopy::shim::UsePciBusOrder();         // before any thread: it changes the environment
  onecopy::shim::PrepareUcxEnvironment();  // likewise
  if (const auto probed = onecopy::ProbeOf({argv + 1, argv + argc})) return *probed;
  onecopy::BlockSignals();
  onecopy::KeepLittleFreeMemory();
  onecopy::UseAllDescriptors();
  const onecopy::Parsed parsed = onecopy::ParseCommandLine(argc, argv);
  if (!parsed.command_line) return parsed.exit_status;
  const onecopy::Ended ended = onecopy::Run(*parsed.command_line);
  const onecopy::Status& status = ended.status;
  onecopy::log::Flush(std::chrono::seconds(1));
  if (status.ok()) return 0;
  onecopy::SayBeforeEnd("onecopyd: " + status.message() + "\n" +
                        (status.remedy().empty() ? "" : "  try: " + status.remedy() + "\n"));
  return ended.ExitStatus();
}
