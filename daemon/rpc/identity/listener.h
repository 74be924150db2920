// Connections for a gRPC server, accepted by ourselves: so that it can be said who may connect, how
// often, and that a port which is in use is an error (gRPC would share it).
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "daemon/engine/base/ledger.h"
#include "daemon/rpc/identity/doors.h"
#include "daemon/rpc/identity/greetings.h"
#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::rpc {

// Who connects.
struct Admitted {
  std::string who;  // as text by which calls tell whose they are (see Doors)
  engine::Owner payer;
  bool administrator = false;
  std::shared_ptr<const void> kept = {};  // for as long as they are connected
};

struct ListenerOptions {
  std::string name;  // of the socket, in reports
  os::UniqueFd socket;
  // Whether it is marked (transport/os/sockets/socket_mark.h), for those who ask who listens there.
  bool marked = false;
  // Says who connects, or why they may not.
  std::function<Result<Admitted>(int fd)> admit;
  // Whether clients speak first, as with TLS: then the kernel keeps silent ones to itself for a
  // while, where they cost nothing here.
  bool clients_speak_first = false;
  // What connections are charged to, and as what. Where there is no room for one, the oldest of the
  // same payer that is still being greeted has to go, or else the oldest of all; where there is
  // none such, the newest.
  engine::Ledger ledger{"", {}};
  engine::Charged charged = engine::Charged::kConnections;
  // Whether their handshakes are charged, too, until their first call (see Greetings).
  bool handshakes = false;
  std::shared_ptr<Greetings> greetings = std::make_shared<Greetings>();
  // Longer than gRPC lets a greeting take (server.cc): what is older has been greeted. 0: at once.
  std::chrono::milliseconds greeting{11'000};
  uint64_t kept_descriptors = 0;  // as os::Shortage::keep
  // A connection that cannot be written to, and of which nothing has been read for so long, is
  // ended: what gRPC has for it waits, calls that were broken off included, and so do its pings,
  // which would find this out. No longer than gRPC waits for the answer to a ping (server.cc).
  std::chrono::milliseconds deaf{20'000};
  // Whether what waits is too much already: then a second or two is long enough. Any thread; empty:
  // never.
  std::function<bool()> crowded = {};
  // Runs on the thread of the listener every second, while there are connections; may be empty.
  std::function<void()> each_second = {};
  // Hears, on the thread of the listener, why connections were not taken or were ended; not of each
  // of a flood.
  std::function<void(const Status&)> report;
};

// Runs on a thread of its own, `accept-NAME`.
class Listener {
 public:
  // The server that `doors` lead to must have been started.
  static Result<std::unique_ptr<Listener>> Start(ListenerOptions options,
                                                 std::unique_ptr<Doors> doors);
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

// For TCP, charged to the address. With `verify_local_uid`, a client of this machine must pass
// CheckPlainPeer: any other local user could say that it is a peer.
std::function<Result<Admitted>(int fd)> AdmitPeers(bool verify_local_uid);

}  // namespace onecopy::rpc
