// PeerService: what other daemons ask of this one.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/ledger.h"
#include "daemon/engine/base/turns.h"
#include "daemon/rpc/identity/tls.h"
#include "onecopy/result.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy::rpc {

struct PeerServerOptions {
  std::string node;         // this one's name, which no caller may have
  os::HostPort listen;      // port 0: any that is free
  Credentials credentials;  // the dialer's also
  // Whether calls of that node are taken, see engine::Engine::AdmitPeer; on the engine's thread.
  std::function<Status(const std::string& node, bool local)> admit;
  // Hears, on a thread of the server's, why peers could not connect.
  std::function<void(const Status&)> report;
  engine::Ledger ledger{"", {}};  // of the whole daemon: what connections and calls are charged to
  size_t most_health_watches = 256;
};

// Runs on threads of its own, `rpc-1` and one that accepts. Each call but those to health names the
// calling node (kNodeMetadata), which its certificate must be for. On plain text, where its word is
// all there is, a caller of this machine must at least be the daemon's own user or root.
class PeerServer {
 public:
  // `api` is used on `engine`'s thread alone. Both must outlive Stop; the tasks that are posted to
  // `engine` may run or be dropped later. UNAVAILABLE where the port is in use.
  static Result<std::unique_ptr<PeerServer>> Start(PeerServerOptions options, engine::Turns engine,
                                                   engine::PeerApi& api);
  ~PeerServer();  // as Stop
  PeerServer(const PeerServer&) = delete;
  PeerServer& operator=(const PeerServer&) = delete;

  // Where it listens, with the port that was found.
  const os::HostPort& address() const;

  // As ApiServer's.
  void Drain();
  void Stop();

 private:
  class Core;
  explicit PeerServer(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace onecopy::rpc
