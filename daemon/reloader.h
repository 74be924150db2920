// Reads files again while the daemon runs: the configuration at SIGHUP, and the files of [tls] from
// time to time.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "daemon/configured.h"
#include "daemon/discovered_peers.h"
#include "daemon/engine/engine.h"

namespace onecopy {

// The peers that the configuration names, for the engine.
std::vector<engine::PeerOptions> PeersOf(const config::Config& config);
// The folders that it exports, likewise.
std::vector<engine::ExportOptions> ExportsOf(const config::Config& config);
std::vector<engine::ShareOptions> SharesOf(const config::Config& config);

// The main thread, which may wait for files.
class Reloader {
 public:
  Reloader(CommandLine line, config::Schema schema, const Configured& running,
           engine::Engine& engine, DiscoveredPeers& peers);

  // Reads the configuration again: peers, exports, certificates and the log's level count at once;
  // the log says what has changed, and what waits for another start. A file that is wrong changes
  // nothing, and one that has another level than before is what ends a level that was set
  // meanwhile.
  void Reload();

  // Reads the files of [tls] again where it is time to, and says in the log what of them ends soon.
  void Turn();
  // How long until Turn has something to do.
  std::chrono::milliseconds UntilTurn() const;

 private:
  using Clock = std::chrono::steady_clock;

  void Apply(const config::Config& wanted);
  void SetLogLevel(const std::string& before);
  void ReadCertificates(const tls::Files& files);
  void WarnOfExpiries();

  const CommandLine line_;
  const config::Schema schema_;
  config::Config running_;
  const std::shared_ptr<tls::Trust> trust_;  // null without [tls]
  engine::Engine& engine_;
  DiscoveredPeers& peers_;
  Clock::time_point next_read_;
  Clock::time_point next_warning_{};
  std::string last_failure_;  // to read certificates, so that each is told once
};

}  // namespace onecopy
