// Connections for a gRPC server, accepted by ourselves: so that it can be said who may connect, how
// often, and that a port which is in use is an error (gRPC would share it).
#pragma once

#include <grpcpp/server_builder.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "transport/core/result.h"
#include "transport/os/event_loop.h"
#include "transport/os/unique_fd.h"

namespace onecopy::rpc {

struct ListenerOptions {
  std::string name;  // of the socket, in reports
  os::UniqueFd socket;
  // Says who connects, as text by which connections are counted, or why they may not.
  std::function<Result<std::string>(int fd)> admit;
  size_t most = 4096;       // connections at a time
  size_t most_each = 1024;  // of one who connects
  // Hears, on the thread of the listener, why connections were not taken; not of each of a flood.
  std::function<void(const Status&)> report;
};

// Runs on a thread of its own, `accept-NAME`.
class Listener {
 public:
  // `server` must have been started.
  static Result<std::unique_ptr<Listener>> Start(
      ListenerOptions options,
      std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Any thread but its own, safe to repeat: takes no more connections. The server must not be shut
  // down before. Connections that were taken stay.
  void Stop();

 private:
  class Core;
  explicit Listener(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

// For Unix sockets: everybody may connect; counted by uid.
Result<std::string> AdmitUid(int fd);

// For TCP, counted by address. With `verify_local_uid`, a client of this machine must be the
// daemon's own user or root: on plain text, any other local user could say that it is a peer.
std::function<Result<std::string>(int fd)> AdmitPeers(bool verify_local_uid);

}  // namespace onecopy::rpc
