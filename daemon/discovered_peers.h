// Discovery of peers as the configuration wants it: the directory of all peers, and what finds
// them.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "daemon/configured.h"
#include "daemon/discovery/directory.h"
#include "daemon/discovery/discovery.h"
#include "daemon/engine/engine.h"

namespace onecopy {

// Begun and ended by one thread.
class DiscoveredPeers {
 public:
  explicit DiscoveredPeers(const Configured& configured) : configured_(configured) {}

  // How discovery is, for the engine. Any thread.
  engine::DiscoveryState State() const;

  // Where peers reach this node, which listens at `listen`.
  std::string OwnAddress(const std::string& listen) const;

  // Begins to discover, where [discovery] says so. After the engine's start; the engine must
  // outlive this.
  void Start(engine::Engine& engine, const std::string& listen);
  // Other peers are configured now. After Start.
  void Configure(const config::Config& config);
  // Before the engine stops: tells others that this node goes, and discovers nothing any more.
  void Stop();

 private:
  const Configured& configured_;
  std::unique_ptr<discovery::Directory> directory_;
  std::atomic<const discovery::Directory*> shown_ = nullptr;  // once it is there
  std::unique_ptr<discovery::Discovery> discovery_;
};

}  // namespace onecopy
