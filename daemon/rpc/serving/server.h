// What both of the daemon's gRPC servers have in common: our own connections, our own completion
// queue with its thread, health, limits, and an end without leaks.
#pragma once

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/rpc/grpc/completion_queue.h"
#include "daemon/rpc/identity/listener.h"
#include "daemon/rpc/serving/call.h"
#include "daemon/rpc/serving/call_set.h"
#include "daemon/rpc/serving/health.h"
#include "onecopy/result.h"

namespace onecopy::rpc {

struct ServerOptions {
  std::string thread;  // name of the completion queue's thread: "rpc-0"
  // Of the one door that all connections share; null: see `doors`.
  std::shared_ptr<grpc::ServerCredentials> credentials;
  // For Unix sockets: how many doors there are, and who always has one (see Doors).
  size_t doors = 0;
  std::vector<std::string> with_door;
  engine::Ledger ledger{"", {}};  // what connections are charged to
  bool reflection = false;        // whether programs may ask what services there are
  size_t most_health_watches = 256;
  // Answers that their clients have not read; where there are more, the calls of the oldest are
  // broken off.
  size_t most_unread_answers = CallSet::kMaxAnswers;
  ListenerOptions listener;
};

// One service, by its full name. Must outlive the server.
struct NamedService {
  std::string name;
  grpc::Service* service;
};

class Server {
 public:
  // `serve` registers the services' methods (call.h). Connections are taken from then on.
  static Result<std::unique_ptr<Server>> Start(ServerOptions options,
                                               const std::vector<NamedService>& services,
                                               const std::function<void(const Serving&)>& serve);
  ~Server();  // as Stop
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Any thread: health says NOT_SERVING from now on.
  void Drain();

  // Any thread but the server's own and an executor's that its handlers need; safe to repeat. Takes
  // no more connections and calls, fails the calls in progress with UNAVAILABLE (DRAINING), and
  // returns within a few seconds, when nothing of the server runs any more. Late answers are
  // dropped.
  void Stop();

 private:
  explicit Server(size_t most_unread_answers) : calls_(most_unread_answers) {}

  std::unique_ptr<Health> health_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<QueueThread> queue_;
  std::unique_ptr<engine::Workers> readers_;
  CallSet calls_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace onecopy::rpc
