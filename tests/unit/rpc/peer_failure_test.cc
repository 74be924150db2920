// What the proxy of a peer makes of peers that are not there, do not answer or answer nonsense.
#include <grpcpp/server_builder.h>
#include <poll.h>
#include <sys/socket.h>

#include <future>

#include "onecopy/reasons.h"
#include "tests/unit/rpc/peer_rig.h"
#include "tests/unit/rpc/samples.h"
#include "transport/os/sockets/host_port.h"

namespace peer_failure_test {
using namespace onecopy;
using namespace onecopy::rpc;

namespace {

// A peer of another making.
class ForeignPeer final : public v1::PeerService::Service {
 public:
  ForeignPeer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~ForeignPeer() override { server_->Shutdown(std::chrono::system_clock::now()); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  grpc::Status Hello(grpc::ServerContext*, const v1::HelloRequest*,
                     v1::HelloResponse* response) override {
    *response = hello;
    return status;
  }

  v1::HelloResponse hello;
  grpc::Status status;

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// A port of this machine at which nobody listens.
std::string DeadAddress() {
  const auto listener = os::ListenTcp({"127.0.0.1", 0}, 1);
  REQUIRE_OK(listener);
  return os::LocalAddress(listener->get())->ToString();
}

}  // namespace

TEST_CASE("a peer that is not there is PEER_DOWN, by name and address, at once") {
  const std::string address = DeadAddress();
  AskingNode asking;
  asking.Dial(address);
  for (int i = 0; i < 3; ++i) {
    const Status status = asking.Hello().status();
    CHECK(status.code() == Code::kUnavailable);
    CHECK(status.reason() == reasons::kPeerDown);
    CHECK(status.message().find("west (" + address + ")") != std::string::npos);
    CHECK_FALSE(status.remedy().empty());
  }
}

TEST_CASE("a peer that comes later is found by the next call, without a pause of gRPC's") {
  AskingNode asking;
  std::string address;
  {
    ServingNode early;
    early.engine.Run([&] { early.api.script.AnswerWith(IAm("west")); });
    address = early.address();
    asking.Dial(address);
    REQUIRE_OK(asking.Hello());
  }
  for (int i = 0; i < 5; ++i) CHECK(asking.Hello().status().reason() == reasons::kPeerDown);
  const auto where = os::ParseHostPort(address);
  REQUIRE_OK(where);
  ServingNode late(PlainText(), where->host, where->port);
  late.engine.Run([&] { late.api.script.AnswerWith(IAm("west")); });
  REQUIRE_OK(asking.Hello());
}

TEST_CASE("a peer that takes connections and says nothing is PEER_DOWN after a while") {
  const auto silent = os::ListenTcp({"127.0.0.1", 0}, 4);
  REQUIRE_OK(silent);
  AskingNode asking;
  asking.Dial(os::LocalAddress(silent->get())->ToString());
  const Status status = asking.Hello().status();
  // Whichever is noticed first: that there is no connection, or no answer.
  CHECK((status.code() == Code::kUnavailable || status.code() == Code::kDeadlineExceeded));
  CHECK(status.reason() == reasons::kPeerDown);
}

TEST_CASE("a call does not wait for an old attempt to connect") {
  AnswerAfterSilence(PlainText(), PlainText());
}

TEST_CASE("a connected peer that answers a greeting too late is not UNAVAILABLE: it may be busy") {
  ServingNode busy;
  busy.engine.Run([&] { busy.api.script.AnswerWith(IAm("west")); });
  AskingNode asking;
  asking.Dial(busy.address());
  REQUIRE_OK(asking.Hello());
  std::promise<void> free;
  busy.engine.loop().Post([until = free.get_future()] { until.wait(); });
  const Status status = asking.Hello().status();
  free.set_value();
  CHECK(status.code() == Code::kDeadlineExceeded);
  CHECK(status.reason() == reasons::kPeerDown);
  CHECK(status.message().find("has not answered Hello") != std::string::npos);
  REQUIRE_OK(asking.Hello());
}

TEST_CASE("something else that listens at the address is PEER_DOWN") {
  const auto other = os::ListenTcp({"127.0.0.1", 0}, 4);
  REQUIRE_OK(other);
  os::LoopThread thread("other");
  thread.loop().Post([&] {
    pollfd wait{other->get(), POLLIN, 0};
    ::poll(&wait, 1, 10000);
    const os::UniqueFd fd(::accept(other->get(), nullptr, nullptr));
    ::send(fd.get(), "SSH-2.0-x\r\n", 11, MSG_NOSIGNAL);
  });
  AskingNode asking;
  asking.Dial(os::LocalAddress(other->get())->ToString());
  CHECK(asking.Hello().status().reason() == reasons::kPeerDown);
}

TEST_CASE("an answer that makes no sense is PEER_INCOMPATIBLE") {
  ForeignPeer foreign;  // its Hello has nobody in it
  AskingNode asking;
  asking.Dial(foreign.address());
  Status status = asking.Hello().status();
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.reason() == reasons::kPeerIncompatible);
  CHECK(status.message().find("self: is missing") != std::string::npos);
  CHECK(status.message().find("west (" + foreign.address() + ")") != std::string::npos);

  foreign.hello.mutable_self()->set_node("../..");
  CHECK(asking.Hello().status().message().find("self.node") != std::string::npos);
  foreign.hello.mutable_self()->set_node("west");
  REQUIRE_OK(asking.Hello());

  status = asking
               .Ask<TransferInfo>([](engine::PeerApi& peer, auto reply) {
                 peer.Query("east", TransferId("t"), std::move(reply));
               })
               .status();
  CHECK(status.reason() == reasons::kPeerIncompatible);  // it does not know that call
  CHECK(status.message().find("QueryTransfer") != std::string::npos);
}

TEST_CASE("an error without our details keeps its code and says whose it is") {
  ForeignPeer foreign;
  foreign.status = {grpc::StatusCode::RESOURCE_EXHAUSTED, "too much"};
  AskingNode asking;
  asking.Dial(foreign.address());
  const Status status = asking.Hello().status();
  CHECK(status.code() == Code::kResourceExhausted);
  CHECK(status.message().find("west") != std::string::npos);
  CHECK(status.message().find("too much") != std::string::npos);
}

TEST_CASE("destroying the proxy answers its calls with CANCELLED, once each") {
  ServingNode serving;
  serving.engine.Run([&] { serving.api.script.Hold(); });
  AskingNode asking;
  asking.Dial(serving.address());
  std::vector<Waiting<engine::HelloReply>> waiting(5);
  asking.engine.Run([&] {
    for (auto& one : waiting) {
      engine::HelloRequest hello;
      hello.self.node = "east";
      asking.peer->Hello("east", hello, one.Reply());
    }
  });
  serving.engine.Await([&] { return serving.api.script.held() == 5; });
  asking.HangUp();
  for (auto& one : waiting) CHECK(one.Get().status().code() == Code::kCancelled);
  serving.engine.Run([&] {
    serving.api.script.AnswerWith(IAm("west"));
    serving.api.script.Release();
  });
}

TEST_CASE("an answer that is on its way when the proxy goes is CANCELLED as well") {
  ServingNode serving;
  serving.engine.Run([&] { serving.api.script.AnswerWith(IAm("west")); });
  AskingNode asking;
  asking.Dial(serving.address());
  // A connection is made with the help of the thread that is busy below.
  REQUIRE_OK(asking.Hello());
  Waiting<engine::HelloReply> waiting;
  bool answered = false;
  asking.engine.Run([&] {
    engine::HelloRequest hello;
    hello.self.node = "east";
    asking.peer->Hello("east", hello, waiting.Reply());
    // The answer comes while this thread is busy here.
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!answered && std::chrono::steady_clock::now() < end) {
      answered = serving.engine.Get<bool>([&] { return serving.api.script.count() == 2; });
    }
    asking.peer.reset();
  });
  CHECK(answered);
  CHECK(waiting.Get().status().code() == Code::kCancelled);
}

TEST_CASE("a connection that is on its way when the proxy goes has its calls CANCELLED") {
  ServingNode serving;
  AskingNode asking;
  asking.Dial(serving.address());
  std::vector<Waiting<engine::HelloReply>> waiting(2);
  asking.engine.Run([&] {
    for (auto& one : waiting) {
      engine::HelloRequest hello;
      hello.self.node = "east";
      asking.peer->Hello("east", hello, one.Reply());
    }
    // It would be taken by this thread, which has not let it.
    asking.peer.reset();
  });
  for (auto& one : waiting) CHECK(one.Get().status().code() == Code::kCancelled);
  serving.engine.Run([&] { CHECK(serving.api.script.count() == 0); });
}

TEST_CASE("a proxy may be destroyed by the reply to one of its calls") {
  AskingNode asking;
  asking.Dial(DeadAddress());
  std::promise<Status> done;
  asking.engine.Run([&] {
    engine::HelloRequest hello;
    hello.self.node = "east";
    asking.peer->Hello("east", hello, [&](Result<engine::HelloReply> reply) {
      asking.peer.reset();
      done.set_value(reply.status());
    });
  });
  CHECK(done.get_future().get().reason() == reasons::kPeerDown);
}

TEST_CASE("a dialer ends although its peers do not answer and their engine is gone") {
  ServingNode serving;
  serving.engine.Run([&] { serving.api.script.Hold(); });
  auto dialer = std::make_unique<Dialer>(PlainText());
  bool heard_answer = false;
  {
    EngineThread engine;
    dialer->AnswerOn(engine.loop());
    std::unique_ptr<engine::PeerApi> peer;
    engine.Run([&] {
      peer = dialer->Dial("west", serving.address());
      engine::HelloRequest hello;
      hello.self.node = "east";
      peer->Hello("east", hello,
                  [&](const Result<engine::HelloReply>& reply) { heard_answer = reply.ok(); });
    });
    serving.engine.Await([&] { return serving.api.script.held() == 1; });
    engine.Run([&] { peer.reset(); });
    engine.Stop();
  }
  dialer.reset();
  CHECK_FALSE(heard_answer);  // there was none
  serving.engine.Run([&] { CHECK(serving.api.script.held() == 1); });
}

TEST_CASE("a server that stops fails its peers' calls as draining") {
  ServingNode serving;
  serving.engine.Run([&] { serving.api.script.Hold(); });
  AskingNode asking;
  asking.Dial(serving.address());
  Waiting<engine::HelloReply> waiting;
  asking.engine.Run([&] {
    engine::HelloRequest hello;
    hello.self.node = "east";
    asking.peer->Hello("east", hello, waiting.Reply());
  });
  serving.engine.Await([&] { return serving.api.script.held() == 1; });
  serving.server->Stop();
  CHECK(waiting.Get().status().reason() == reasons::kDraining);
  CHECK(asking.Hello().status().reason() == reasons::kPeerDown);
}
}  // namespace peer_failure_test
