#include "daemon/discovered_peers.h"

#include <utility>

#include "daemon/config/sections.h"
#include "daemon/discovery/dns.h"
#include "daemon/discovery/etcd/etcd.h"
#include "daemon/reloader.h"
#include "onecopy/reasons.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy {
namespace {

std::string KindOf(const config::Config& config) {
  return config::DiscoveryKinds()[static_cast<size_t>(config.discovery.kind)];
}

discovery::EtcdOptions EtcdOptionsOf(const config::Config& config, const std::string& address) {
  const config::Discovery& from = config.discovery;
  discovery::EtcdOptions options;
  for (const config::EtcdEndpoint& endpoint : from.etcd_endpoints) {
    options.servers.push_back({endpoint.tls, endpoint.where});
  }
  options.secrets = {from.etcd_ca, from.etcd_certificate, from.etcd_key, from.etcd_user,
                     from.etcd_password_file};
  options.prefix = from.etcd_prefix;
  options.lease = std::chrono::ceil<std::chrono::seconds>(from.etcd_lease);
  options.node = config.name;
  options.address = address;
  return options;
}

}  // namespace

engine::DiscoveryState DiscoveredPeers::State() const {
  if (const discovery::Directory* directory = shown_) return directory->State();
  engine::DiscoveryState state;
  state.info.kind = KindOf(configured_.config);
  state.info.viability = Viability::No(reasons::kNotYetKnown, "the daemon is still starting");
  return state;
}

std::string DiscoveredPeers::OwnAddress(const std::string& listen) const {
  const auto& advertise = configured_.config.discovery.advertise;
  return advertise ? advertise->ToString() : listen;
}

void DiscoveredPeers::Start(engine::Engine& engine, const std::string& listen) {
  const config::Config& config = configured_.config;
  const std::string address = OwnAddress(listen);
  const Result<os::HostPort> own = os::ParseHostPort(address);
  directory_ = std::make_unique<discovery::Directory>(
      discovery::DirectoryOptions{
          .kind = KindOf(config),
          .node = config.name,
          .rules = {.own = own.ok() ? *own : config.listen,
                    .beyond_machine = config.tls.enabled() || config.insecure}},
      PeersOf(config),
      [&engine](std::vector<engine::PeerOptions> peers) { engine.SetPeers(std::move(peers)); });
  shown_ = directory_.get();
  if (config.discovery.kind == config::DiscoveryKind::kEtcd) {
    discovery_ = discovery::StartEtcd(EtcdOptionsOf(config, address), *directory_);
  }
  if (config.discovery.kind == config::DiscoveryKind::kDns) {
    const Result<os::HostPort> listens = os::ParseHostPort(listen);
    discovery_ = discovery::StartDns({.name = config.discovery.dns_name,
                                      .server = config.discovery.dns_server,
                                      .port = listens.ok() ? listens->port : config.listen.port,
                                      .trust = configured_.trust},
                                     *directory_);
  }
}

void DiscoveredPeers::Configure(const config::Config& config) {
  directory_->Configure(PeersOf(config));
}

void DiscoveredPeers::Stop() {
  if (discovery_ != nullptr) discovery_->Leave();
  discovery_.reset();
}

}  // namespace onecopy
