// A peer's server and the proxy that asks it, in one process.
#pragma once

#include <optional>

#include "daemon/rpc/dialer.h"
#include "tests/unit/rpc/rpc_rig.h"

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
    auto started = PeerServer::Start({"west", {host, port}, std::move(credentials), reports.Sink()},
                                     engine.loop(), api);
    REQUIRE_OK(started);
    server = std::move(*started);
  }
  ~ServingNode() {
    server->Stop();
    engine.Stop();
  }
  std::string address() const { return server->address().ToString(); }

  EngineThread engine;
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

}  // namespace onecopy::rpc
