// api.sock: TransferService, BufferService and NodeService for the clients of this node.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/engine/client_api.h"
#include "daemon/engine/sessions.h"
#include "transport/core/executor.h"
#include "transport/core/result.h"

namespace onecopy::rpc {

struct ApiServerOptions {
  std::string path;  // of the socket; a stale one is replaced (see RunDir)
  // Hears, on a thread of the server's, why clients could not connect.
  std::function<void(const Status&)> report;
};

// Runs on threads of its own, `rpc-0` and one that accepts. Each call but those to health and
// reflection must carry the token of a session of attach.sock (kSessionMetadata).
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
