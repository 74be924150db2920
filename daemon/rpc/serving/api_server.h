// api.sock: SessionService, TransferService, BufferService, NodeService and ArrivalService for the
// clients of this node; and the same over TLS for those of other machines.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/engine/api/client_api.h"
#include "daemon/engine/base/ledger.h"
#include "daemon/engine/base/turns.h"
#include "daemon/engine/registry/sessions.h"
#include "daemon/rpc/identity/tls.h"
#include "onecopy/result.h"
#include "transport/os/machine/namespace_names.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy::rpc {

// Where clients of other machines are served: never without TLS.
struct ApiNetwork {
  os::HostPort listen;
  Credentials credentials;  // of MutualTls
};

struct ApiServerOptions {
  std::string path;                        // of the socket; a stale one is replaced (see RunDir)
  std::optional<ApiNetwork> network = {};  // in place of the socket
  std::string node = {};                   // told to clients, as is the version
  std::string version = {};                // of the daemon's program
  // What clients' namespaces are called, at every socket of this daemon.
  std::shared_ptr<os::NamespaceNames> namespace_names = std::make_shared<os::NamespaceNames>();
  // Hears, on a thread of the server's, why clients could not connect.
  std::function<void(const Status&)> report = {};
  engine::Ledger ledger{"", {}};  // of the whole daemon: what connections and calls are charged to
  size_t most_health_watches = 256;
  size_t most_unread_answers = 16'384;     // see ServerOptions
  std::chrono::milliseconds deaf{20'000};  // see ListenerOptions
  bool reflection = false;  // whether programs may ask, without a session, what services there are
};

// Runs on threads of its own, `rpc-0` (`rpc-2` in a network) and one that accepts. Each call but
// those to health and reflection, and OpenSession, must carry the token of a session
// (kSessionMetadata), and come from whom that was given to: the same uid, in the same namespaces,
// or the same user by certificate.
class ApiServer {
 public:
  // `api` and `sessions` are used on `engine`'s thread alone. All three must outlive Stop; the
  // tasks that are posted to `engine` may run or be dropped later.
  static Result<std::unique_ptr<ApiServer>> Start(ApiServerOptions options, engine::Turns engine,
                                                  engine::ClientApi& api,
                                                  engine::Sessions& sessions);
  ~ApiServer();  // as Stop
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  // Where it listens in a network.
  const os::HostPort& address() const;

  // Any thread: health says NOT_SERVING from now on. Refusing work is the engine's.
  void Drain();

  // Any thread but the engine's and the server's own, safe to repeat: removes the socket, takes no
  // more calls, fails those in progress with UNAVAILABLE (DRAINING), and returns within a few
  // seconds, when all threads have ended. Nothing is posted to the engine afterwards.
  void Stop();

 private:
  class Core;
  explicit ApiServer(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace onecopy::rpc
