// api.sock: TransferService, BufferService and NodeService for the clients of this node.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "daemon/engine/api/client_api.h"
#include "daemon/engine/api/limits.h"
#include "daemon/engine/registry/sessions.h"
#include "transport/core/executor.h"
#include "transport/core/result.h"

namespace onecopy::rpc {

struct ApiServerOptions {
  std::string path;  // of the socket; a stale one is replaced (see RunDir)
  // Hears, on a thread of the server's, why clients could not connect.
  std::function<void(const Status&)> report;
  engine::Limit connections = engine::Limits().sessions;
  engine::Limit requests{8192, 32'768};                         // see CallQuota
  size_t reserved_percent = engine::Limits().reserved_percent;  // of both, for administrators
  size_t most_health_watches = 256;
  size_t most_unread_answers = 16'384;     // see ServerOptions
  std::chrono::milliseconds deaf{20'000};  // see ListenerOptions
  bool reflection = false;  // whether programs may ask, without a session, what services there are
};

// Runs on threads of its own, `rpc-0` and one that accepts. Each call but those to health and
// reflection must carry the token of a session of attach.sock (kSessionMetadata), and come from
// whom that was given to: the same uid, in the same namespaces.
class ApiServer {
 public:
  // `api` and `sessions` are used on `engine`'s thread alone. All three must outlive Stop; the
  // tasks that are posted to `engine` may run or be dropped later.
  static Result<std::unique_ptr<ApiServer>> Start(ApiServerOptions options, Executor& engine,
                                                  engine::ClientApi& api,
                                                  engine::Sessions& sessions);
  ~ApiServer();  // as Stop
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

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
