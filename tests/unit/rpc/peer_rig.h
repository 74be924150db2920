// A peer's server and the proxy that asks it, in one process.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <thread>

#include "daemon/rpc/outgoing/dialer.h"
#include "tests/unit/rpc/rpc_rig.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy::rpc {

// An answer on its way from the engine's thread.
template <typename T>
class Waiting {
 public:
  engine::Reply<T> Reply() {
    return [promise = promise_](Result<T> result) { promise->set_value(std::move(result)); };
  }
  Result<T> Get() {
    auto future = promise_->get_future();
    REQUIRE(future.wait_for(kPatience) == std::future_status::ready);
    return future.get();
  }

 private:
  std::shared_ptr<std::promise<Result<T>>> promise_ = std::make_shared<std::promise<Result<T>>>();
};

// A node "west" that serves, played by `api`.
class ServingNode {
 public:
  explicit ServingNode(Credentials credentials = PlainText(), const std::string& host = "127.0.0.1",
                       uint16_t port = 0) {
    PeerServerOptions options{"west", {host, port}, std::move(credentials), {}, reports.Sink()};
    options.admit = [this](const std::string& node, bool local) {
      asked.emplace_back(node, local);
      return admit;
    };
    auto started = PeerServer::Start(std::move(options), engine.loop(), api);
    REQUIRE_OK(started);
    server = std::move(*started);
  }
  ~ServingNode() {
    server->Stop();
    engine.Stop();
  }
  std::string address() const { return server->address().ToString(); }

  EngineThread engine;
  Status admit;                                     // engine's thread: what callers are told
  std::vector<std::pair<std::string, bool>> asked;  // likewise: who they were, and whether local
  FakePeerApi api;
  Reports reports;
  std::unique_ptr<PeerServer> server;
};

// The node "east" that asks.
class AskingNode {
 public:
  explicit AskingNode(Credentials credentials = PlainText()) : dialer(std::move(credentials)) {
    dialer.AnswerOn(engine.loop());
  }
  ~AskingNode() {
    HangUp();
    engine.Stop();
  }

  void Dial(const std::string& address, const std::string& name = "west") {
    engine.Run([&] { peer = dialer.Dial(name, address); });
  }
  void HangUp() {
    engine.Run([this] { peer.reset(); });
  }
  // `ask(peer, reply)` on the engine's thread, and its answer.
  template <typename T>
  Result<T> Ask(const std::function<void(engine::PeerApi&, engine::Reply<T>)>& ask) {
    Waiting<T> waiting;
    engine.Run([&] { ask(*peer, waiting.Reply()); });
    return waiting.Get();
  }
  Result<engine::HelloReply> Hello(const std::string& caller = "east") {
    return Ask<engine::HelloReply>([&](engine::PeerApi& api, auto reply) {
      engine::HelloRequest hello;
      hello.self.node = caller;
      api.Hello(caller, hello, std::move(reply));
    });
  }

  Dialer dialer;
  EngineThread engine;
  std::unique_ptr<engine::PeerApi> peer;  // engine's thread
};

// What a node says of itself.
inline engine::HelloReply IAm(const std::string& node) {
  engine::HelloReply reply;
  reply.self.node = node;
  return reply;
}

// What was sent to `west` before it could answer is lost, as in a cut; a call that comes when that
// is long ago is answered all the same, and with it those from before.
inline void AnswerAfterSilence(const Credentials& east, const Credentials& west) {
  auto silent = os::ListenTcp({"127.0.0.1", 0}, 4);
  REQUIRE_OK(silent);
  const auto where = os::LocalAddress(silent->get());
  REQUIRE_OK(where);
  AskingNode asking(east);
  asking.Dial(where->ToString());
  Waiting<engine::HelloReply> first;
  asking.engine.Run([&] {
    engine::HelloRequest hello;
    hello.self.node = "east";
    asking.peer->Hello("east", hello, first.Reply());
  });
  pollfd wait{silent->get(), POLLIN, 0};
  REQUIRE(::poll(&wait, 1, 10000) == 1);
  const os::UniqueFd lost(::accept(silent->get(), nullptr, nullptr));
  silent->Reset();
  ServingNode serving(west, where->host, where->port);
  serving.engine.Run([&] { serving.api.script.AnswerWith(IAm("west")); });
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // this is what makes it old

  REQUIRE_OK(asking.Hello());
  // Without TLS whoever connects does so for all; gRPC keeps to its own attempt for its own calls.
  const Result<engine::HelloReply> earlier = first.Get();
  CHECK((earlier.ok() || east.tls));
}

}  // namespace onecopy::rpc
