#include "daemon/reloader.h"

#include <algorithm>
#include <utility>

#include "daemon/log/log.h"

namespace onecopy {
namespace {

constexpr std::chrono::hours kWarnEvery{24};
constexpr std::chrono::hours kWarnOfEndedEvery{1};
constexpr std::chrono::hours kLongest{24};

std::string Join(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "; ") + line;
  return text;
}

std::vector<engine::UserPattern> PatternsOf(const std::vector<config::FileUser>& users,
                                            const std::string& self) {
  std::vector<engine::UserPattern> patterns;
  for (const config::FileUser& user : users) {
    patterns.push_back({user.uid, user.node.empty() ? self : user.node});
  }
  return patterns;
}

}  // namespace

std::vector<engine::PeerOptions> PeersOf(const config::Config& config) {
  std::vector<engine::PeerOptions> peers;
  for (const auto& [name, peer] : config.peers) {
    peers.push_back({name, os::ToString(peer.addresses), peer.uid_domain, peer.create_bytes});
  }
  return peers;
}

std::vector<engine::ExportOptions> ExportsOf(const config::Config& config) {
  std::vector<engine::ExportOptions> exports;
  for (const auto& [name, one] : config.exports) {
    engine::ExportOptions& to = exports.emplace_back();
    to.name = name;
    to.path = one.path;
    to.mode = one.mode;
    to.follow_beneath = one.follow_beneath;
    to.read = PatternsOf(one.read, config.name);
    to.write = PatternsOf(one.write, config.name);
  }
  return exports;
}

std::vector<engine::ShareOptions> SharesOf(const config::Config& config) {
  std::vector<engine::ShareOptions> shares;
  for (const auto& [name, one] : config.shares) {
    shares.push_back({PatternsOf(one.users, config.name), one.nodes, one.weight,
                      one.rate_limit_bytes_per_second, one.priority});
  }
  return shares;
}

Reloader::Reloader(CommandLine line, config::Schema schema, const Configured& running,
                   engine::Engine& engine, DiscoveredPeers& peers)
    : line_(std::move(line)),
      schema_(std::move(schema)),
      running_(running.config),
      trust_(running.trust),
      engine_(engine),
      peers_(peers),
      next_read_(Clock::now() + running.config.tls.reload) {}

void Reloader::Reload() {
  const Result<config::Config> wanted = ReadConfig(line_, schema_);
  if (!wanted.ok()) {
    log::Error("the reloaded configuration is invalid: the old one stays in use",
               {{"why", wanted.status().message()}, {"remedy", wanted.status().remedy()}});
  } else {
    Apply(*wanted);
  }
  if (trust_ != nullptr) ReadCertificates(FilesOf(running_.tls));
}

void Reloader::Apply(const config::Config& wanted) {
  const config::Changes changes = config::Compare(running_, wanted);
  const std::string level = running_.log_level;
  running_ = config::Merge(running_, wanted);
  peers_.Configure(running_);
  engine_.SetExports(ExportsOf(running_));
  engine_.SetShares(SharesOf(running_));
  SetLogLevel(level);
  log::Info("the configuration was reloaded",
            {{"file", line_.config_file.empty() ? "none" : line_.config_file},
             {"changed", changes.now.empty() ? "nothing" : Join(changes.now)}});
  if (!changes.at_restart.empty()) {
    log::Warning("these changed settings take effect at the next start",
                 {{"settings", Join(changes.at_restart)}});
  }
}

// A level that was set at run time stays until the file's level changes.
void Reloader::SetLogLevel(const std::string& before) {
  if (running_.log_level == before) return;
  const Result<std::string> replaced = log::SetLevel(running_.log_level);
  if (!replaced.ok()) {
    log::Error("the new log level is unknown: the old one stays in use",
               {{"why", replaced.status().message()}});
  } else if (*replaced != before) {
    log::Warning("the log level that was set at run time is replaced",
                 {{"was", *replaced}, {"now", running_.log_level}});
  }
}

void Reloader::ReadCertificates(const tls::Files& files) {
  next_read_ = Clock::now() + running_.tls.reload;
  const Result<bool> changed = trust_->Reload(files);
  if (!changed.ok()) {
    std::string failure = changed.status().message();
    if (failure == last_failure_) return;
    log::Error("the files of [tls] are invalid: the old ones stay in use",
               {{"why", failure}, {"remedy", changed.status().remedy()}});
    last_failure_ = std::move(failure);
    return;
  }
  last_failure_.clear();
  if (!*changed) return;
  const tls::Certificate own = trust_->Now().identity->own();
  log::Info("new files of [tls] are in use", {{"certificate", own.Subject()},
                                              {"serial", own.Serial()},
                                              {"until", tls::TimeText(own.NotAfter())}});
  next_warning_ = {};
}

void Reloader::Turn() {
  if (trust_ == nullptr) return;
  if (running_.tls.reload.count() > 0 && Clock::now() >= next_read_) {
    ReadCertificates(FilesOf(running_.tls));
  }
  if (Clock::now() >= next_warning_) WarnOfExpiries();
}

void Reloader::WarnOfExpiries() {
  const tls::WallTime now = std::chrono::system_clock::now();
  bool any_ended = false;
  for (const tls::Expiry& expiry : trust_->Now().identity->expiries()) {
    if (!tls::EndsSoon(expiry, now)) continue;
    const bool ended = expiry.when <= now;
    any_ended |= ended;
    log::Write(
        ended ? log::Level::kError : log::Level::kWarning,
        ended ? "a file of [tls] has expired: peers refuse this node, or this node refuses them"
              : "a file of [tls] expires soon",
        {{"what", expiry.what}, {"file", expiry.file}, {"until", tls::TimeText(expiry.when)}});
  }
  next_warning_ = Clock::now() + (any_ended ? kWarnOfEndedEvery : kWarnEvery);
}

std::chrono::milliseconds Reloader::UntilTurn() const {
  if (trust_ == nullptr) return kLongest;
  Clock::time_point next = next_warning_;
  if (running_.tls.reload.count() > 0) next = std::min(next, next_read_);
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now());
  return std::clamp(left, std::chrono::milliseconds(1), std::chrono::milliseconds(kLongest));
}

}  // namespace onecopy
