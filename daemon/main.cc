// The composition root: reads the configuration, opens the backends that this build has, and joins
// the engine with its sockets. Nothing here knows any backend by name.
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/attach/attach_server.h"
#include "daemon/command_line.h"
#include "daemon/config/config.h"
#include "daemon/engine/engine.h"
#include "daemon/log/log.h"
#include "daemon/rpc/api_server.h"
#include "daemon/rpc/dialer.h"
#include "daemon/rpc/peer_server.h"
#include "daemon/rpc/tls.h"
#include "daemon/rundir/run_dir.h"
#include "daemon/service.h"
#include "daemon/version.h"
#include "transport/core/backend.h"
#include "transport/core/exit_status.h"
#include "transport/core/rdma_settings.h"
#include "transport/os/host_port.h"
#include "transport/shim/cuda.h"
#include "transport/shim/ucx.h"
#include "transport/topology/topology_file.h"

namespace onecopy {
namespace {

template <typename Interface>
void AddTo(config::Schema& schema, const std::vector<Backend<Interface>>& backends) {
  for (const Backend<Interface>& backend : backends) {
    schema.backends[backend.name] = backend.settings;
    if (backend.rdma) schema.backends["rdma"] = RdmaSettings();
    if (!backend.library.empty()) schema.libraries.push_back(backend.library);
  }
}

template <typename Interface>
Result<std::vector<std::unique_ptr<Interface>>> Open(std::vector<Backend<Interface>>& backends,
                                                     const config::Config& config,
                                                     const Topology& topology) {
  std::vector<std::unique_ptr<Interface>> opened;
  for (Backend<Interface>& backend : backends) {
    BackendContext context;
    context.node = config.name;
    context.settings = config.backends.at(backend.name);
    if (!backend.library.empty()) context.library = config.libraries.at(backend.library);
    context.lanes = config.LanesAddress().ToString();
    if (backend.rdma) context.rdma = config.backends.at("rdma");
    context.peers_authenticated = config.tls.enabled();
    context.topology = topology;
    ONECOPY_ASSIGN_OR_RETURN(std::unique_ptr<Interface> one, backend.create(context));
    opened.push_back(std::move(one));
  }
  return opened;
}

Result<config::Config> ReadConfig(const CommandLine& line, const config::Schema& schema) {
  config::Config config = config::Defaults(schema);
  if (!line.config_file.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(config, config::Load(line.config_file, schema));
  }
  ONECOPY_RETURN_IF_ERROR(config::Apply(line.overrides, config));
  ONECOPY_RETURN_IF_ERROR(config::CheckSecurity(config));
  return config;
}

Status OpenLog(const config::Config& config) {
  const log::Format format = config.log_format == config::LogFormat::kText ? log::Format::kText
                             : config.log_format == config::LogFormat::kJournal
                                 ? log::Format::kJournal
                                 : log::Format::kAuto;
  ONECOPY_RETURN_IF_ERROR(log::Open(format));
  return log::SetLevel(config.log_level).status();
}

// A file that somebody named must be right. A machine that cannot be read is none that nothing can
// be moved on: its distances are unknown then.
Result<Topology> ReadTopology(const config::Config& config) {
  Result<Topology> topology = LoadTopology(config.topology);
  if (topology.ok() || !config.topology.empty()) return topology;
  log::Warning("the topology of this machine is not known",
               {{"why", topology.status().ToString()}});
  return Topology();
}

engine::Options EngineOptions(const config::Config& config, Topology topology) {
  engine::Options options;
  options.node = config.name;
  options.version = kVersion;
  options.uid_domain = config.uid_domain;
  options.loopback_only = os::IsLoopback(config.listen.host);
  options.daemon_uid = ::getuid();
  for (const auto& [name, peer] : config.peers) {
    options.peers.push_back({name, peer.address.ToString(), peer.uid_domain});
  }
  options.heartbeat = config.heartbeat;
  options.reconnect_least = config.reconnect_least;
  options.reconnect_most = config.reconnect_most;
  options.stall_timeout = config.stall_timeout;
  options.drain_timeout = config.drain_timeout;
  options.keep_transfers = config.keep_transfers;
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
  options.set_log_level = [](const std::string& level) { return log::SetLevel(level); };
  return options;
}

// Ends what serves, in the order in which nothing can ask what is gone: clients, peers, engine.
void DrainAndStop(engine::Engine& engine, attach::AttachServer& attach, rpc::ApiServer& api,
                  rpc::PeerServer& peers, std::chrono::milliseconds drain_timeout) {
  TellStopping(drain_timeout + std::chrono::seconds(15));
  api.Drain();
  peers.Drain();
  auto drained = std::make_shared<std::promise<void>>();
  std::future<void> waiting = drained->get_future();
  auto once = std::make_shared<std::atomic<bool>>(false);
  auto end_waiting = [drained, once] {
    if (!once->exchange(true)) drained->set_value();
  };
  engine.Drain(end_waiting);
  OnNextSignal([end_waiting] {
    log::Warning("told to stop again: not waiting for transfers");
    end_waiting();
  });
  waiting.wait();
  attach.Stop();
  api.Stop();
  engine.Stop();
  peers.Stop();
}

Status Serve(const CommandLine& line) {
  Backends backends = AllBackends();
  config::Schema schema;
  AddTo(schema, backends.memories);
  AddTo(schema, backends.links);
  ONECOPY_ASSIGN_OR_RETURN(const config::Config config, ReadConfig(line, schema));
  ONECOPY_RETURN_IF_ERROR(OpenLog(config));
  ONECOPY_ASSIGN_OR_RETURN(Topology topology, ReadTopology(config));
  ONECOPY_ASSIGN_OR_RETURN(const RunDir run_dir, RunDir::Claim(config.run_dir));
  rpc::Credentials credentials = rpc::PlainText();
  if (config.tls.enabled()) {
    ONECOPY_ASSIGN_OR_RETURN(
        credentials,
        rpc::MutualTls({config.tls.ca, config.tls.certificate, config.tls.key}, config.name));
  }

  ONECOPY_ASSIGN_OR_RETURN(auto memories, Open(backends.memories, config, topology));
  ONECOPY_ASSIGN_OR_RETURN(auto links, Open(backends.links, config, topology));
  rpc::Dialer dialer(credentials);
  engine::Engine engine(EngineOptions(config, std::move(topology)), std::move(memories),
                        std::move(links), dialer);
  dialer.AnswerOn(engine.loop());

  auto report = [](const char* what) {
    return [what](const Status& status) { log::Warning(what, {{"why", status.ToString()}}); };
  };
  ONECOPY_ASSIGN_OR_RETURN(const auto peers,
                           rpc::PeerServer::Start({config.name, config.listen, credentials,
                                                   report("peers cannot connect")},
                                                  engine.loop(), engine.node()));
  ONECOPY_ASSIGN_OR_RETURN(
      const auto api, rpc::ApiServer::Start({run_dir.ApiSocket(), report("clients cannot connect")},
                                            engine.loop(), engine.client(), engine.sessions()));
  attach::Options attach_options;
  attach_options.path = run_dir.AttachSocket();
  attach_options.node = config.name;
  attach_options.version = kVersion;
  attach_options.report = report("clients cannot attach");
  ONECOPY_ASSIGN_OR_RETURN(const auto attach,
                           attach::AttachServer::Start(std::move(attach_options), engine.loop(),
                                                       engine.sessions(), &engine.rings()));

  engine.Start(peers->address().ToString());
  BeginWatchdog(engine.loop());
  const std::string ready = "name=" + config.name + " listen=" + peers->address().ToString() +
                            " run-dir=" + run_dir.path();
  std::printf("ready %s\n", ready.c_str());
  std::fflush(stdout);
  TellReady("Serving: " + ready);
  if (!config.tuned.empty()) log::Info("measured settings fill the gaps", {{"file", config.tuned}});
  log::Info("serving", {{"name", config.name},
                        {"listen", peers->address().ToString()},
                        {"run_dir", run_dir.path()},
                        {"tls", config.tls.enabled() ? "mutual" : "none"},
                        {"version", kVersion}});

  const int signal = WaitForSignal();
  log::Info("stopping", {{"signal", signal}});
  DrainAndStop(engine, *attach, *api, *peers, config.drain_timeout);
  return OkStatus();
}

Status CheckConfig(const CommandLine& line, const config::Schema& schema) {
  ONECOPY_ASSIGN_OR_RETURN(const config::Config config, ReadConfig(line, schema));
  if (!config.topology.empty()) {
    ONECOPY_RETURN_IF_ERROR(LoadTopologyFile(config.topology).status());
  }
  std::printf("%s: right, for node %s\n", line.config_file.c_str(), config.name.c_str());
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

Status Run(const CommandLine& line) {
  if (line.what == CommandLine::Do::kServe) return Serve(line);
  const Backends backends = AllBackends();
  config::Schema schema;
  AddTo(schema, backends.memories);
  AddTo(schema, backends.links);
  if (line.what == CommandLine::Do::kCheckConfig) return CheckConfig(line, schema);
  std::fputs(config::PrintDefault(schema).c_str(), stdout);
  return OkStatus();
}

}  // namespace
}  // namespace onecopy

int main(int argc, char** argv) {
  onecopy::shim::UsePciBusOrder();         // before any thread: it changes the environment
  onecopy::shim::PrepareUcxEnvironment();  // likewise
  onecopy::BlockSignals();
  onecopy::UseAllDescriptors();
  const onecopy::Parsed parsed = onecopy::ParseCommandLine(argc, argv);
  if (!parsed.command_line) return parsed.exit_status;
  const onecopy::Status status = onecopy::Run(*parsed.command_line);
  if (status.ok()) return 0;
  std::fprintf(stderr, "onecopyd: %s\n", status.message().c_str());
  if (!status.remedy().empty()) std::fprintf(stderr, "  try: %s\n", status.remedy().c_str());
  return onecopy::ExitStatusOf(status.code());
}
