// What others may send to the sockets, and who may connect: the servers serve on.
#include <grpcpp/generic/generic_stub.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "daemon/rpc/grpc/limits.h"
#include "daemon/rpc/identity/local_presenters.h"
#include "daemon/rpc/serving/server.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "onecopy/reasons.h"
#include "tests/unit/rpc/peer_rig.h"
#include "tests/unit/rpc/samples.h"
#include "transport/os/sockets/host_port.h"
#include "transport/os/sockets/unix_socket.h"

namespace abuse_test {
using namespace onecopy;
using namespace onecopy::rpc;

namespace {

const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::vector<std::string> Garbage() {
  std::string noise(100'000, '\0');
  uint32_t state = 12345;
  for (char& c : noise) {
    state = state * 1664525 + 1013904223;
    c = static_cast<char>(state >> 24);
  }
  return {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", noise, std::string(1000, '\0'),
          std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),  // a TLS hello
          kPreface + noise,
          // A frame of 16 MiB; settings with a wrong length; a header block that is none.
          kPreface + std::string("\xff\xff\xff\x00\x00\x00\x00\x00\x01", 9),
          kPreface + std::string("\x00\x00\x05\x04\x00\x00\x00\x00\x00xxxxx", 14),
          kPreface + std::string("\x00\x00\x00\x04\x00\x00\x00\x00\x00", 9) +
              std::string("\x00\x00\x04\x01\x05\x00\x00\x00\x01\xff\xff\xff\xff", 13)};
}

std::string Frame(char type, char flags, char stream, const std::string& payload) {
  const std::string head = {static_cast<char>(payload.size() >> 16),
                            static_cast<char>(payload.size() >> 8),
                            static_cast<char>(payload.size()),
                            type,
                            flags,
                            0,
                            0,
                            0,
                            stream};
  return head + payload;
}

// All that a client of PeerService sends to say Hello as node "east", in one go.
std::string RawHello() {
  std::string headers;
  const auto add = [&](const std::string& name, const std::string& value) {
    headers += std::string(1, '\0') + static_cast<char>(name.size()) + name +
               static_cast<char>(value.size()) + value;
  };
  add(":method", "POST");
  add(":scheme", "http");
  add(":path", "/onecopy.v1.PeerService/Hello");
  add(":authority", "west");
  add("content-type", "application/grpc");
  add("te", "trailers");
  add(kNodeMetadata, "east");
  v1::HelloRequest hello;
  hello.mutable_self()->set_node("east");
  const std::string body = hello.SerializeAsString();
  const std::string message =
      std::string(4, '\0') + static_cast<char>(body.size()) + body;  // not compressed, its length
  return kPreface + Frame(4, 0, 0, "") + Frame(1, 4, 1, headers) +
         Frame(0, 1, 1, std::string(message));
}

// Until the far end closes; what it says before is not looked at.
void AwaitEnd(const os::UniqueFd& fd) {
  std::array<char, 4096> bytes{};
  while (true) {
    pollfd wait{fd.get(), POLLIN, 0};
    REQUIRE(::poll(&wait, 1, 20'000) == 1);
    const ssize_t got = ::recv(fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) return;
  }
}

// Sends without waiting for a far end that may have closed.
void SendAll(const os::UniqueFd& fd, const std::string& bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    pollfd wait{fd.get(), POLLOUT, 0};
    REQUIRE(::poll(&wait, 1, 20'000) == 1);
    const ssize_t some =
        ::send(fd.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (some <= 0) return;
    sent += static_cast<size_t>(some);
  }
}

os::UniqueFd ConnectTcp(const std::string& address) {
  const auto where = os::ParseHostPort(address);
  REQUIRE_OK(where);
  auto fd = os::ConnectTcp(*where);
  REQUIRE_OK(fd);
  pollfd wait{fd->get(), POLLOUT, 0};
  REQUIRE(::poll(&wait, 1, 20'000) == 1);
  return std::move(*fd);
}

// The test's own user is the servers', and so an administrator; counted as if it were not.
engine::Ledger AtMost(engine::Limit connections) {
  engine::Limits limits;
  limits.sessions = connections;
  limits.reserved_percent = 0;
  return {"east", limits};
}

Result<Admitted> AdmitOrdinary(int fd) {
  static LocalPresenters presenters("east", std::make_shared<os::NamespaceNames>());
  ONECOPY_ASSIGN_OR_RETURN(Admitted admitted, presenters.Admit(fd));
  CHECK(admitted.administrator);
  return Admitted{admitted.who, {1000, "east"}};
}

void CheckServes(ApiRig& rig) {
  v1::Node node;
  const auto context = rig.Context();
  const auto channel = rig.Channel();
  REQUIRE_OK(FromGrpc(v1::NodeService::NewStub(channel)->GetNode(context.get(), {}, &node)));
}

}  // namespace

TEST_CASE("garbage on api.sock is dropped") {
  ApiRig rig;
  rig.engine.Run([&] { rig.api.script.AnswerWith(SampleNode()); });
  for (const std::string& bytes : Garbage()) {
    auto fd = os::ConnectUnix(rig.path(), SOCK_STREAM);
    REQUIRE_OK(fd);
    SendAll(*fd, bytes);
    ::shutdown(fd->get(), SHUT_WR);
    AwaitEnd(*fd);
    CheckServes(rig);
  }
}

TEST_CASE("garbage on the peers' port is dropped") {
  ServingNode serving;
  serving.engine.Run([&] { serving.api.script.AnswerWith(IAm("west")); });
  for (const std::string& bytes : Garbage()) {
    const os::UniqueFd fd = ConnectTcp(serving.address());
    SendAll(fd, bytes);
    ::shutdown(fd.get(), SHUT_WR);
    AwaitEnd(fd);
    AskingNode asking;
    asking.Dial(serving.address());
    REQUIRE_OK(asking.Hello());
  }
}

TEST_CASE("a message that cannot be read, one too long and an unknown method fail alone") {
  ApiRig rig;
  rig.engine.Run([&] { rig.api.script.AnswerWith(SampleNode()); });
  const auto call = [&](const std::string& method, const std::string& bytes) {
    grpc::CompletionQueue queue;
    grpc::GenericStub stub(rig.channel);
    const auto context = rig.Context();
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    const auto reader = stub.PrepareUnaryCall(context.get(), method, request, &queue);
    reader->StartCall();
    grpc::ByteBuffer reply;
    grpc::Status status;
    reader->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    REQUIRE(queue.Next(&tag, &ok));
    return status.error_code();
  };
  const std::string get_node = "/onecopy.v1.NodeService/GetNode";
  for (int i = 0; i < 3; ++i) {
    for (const std::string& end : {std::string(), std::string(200'000, 'x')}) {
      CHECK(call(get_node, "\xff\xff\xff nonsense" + end) == grpc::StatusCode::INVALID_ARGUMENT);
    }
    // An unknown field of 100,000 bytes.
    CHECK(call(get_node, "\x7a\xa0\x8d\x06" + std::string(100'000, 'x')) == grpc::StatusCode::OK);
    CHECK(call(get_node, std::string(kMaxMessageBytes + 1, 'x')) ==
          grpc::StatusCode::RESOURCE_EXHAUSTED);
    CHECK(call("/onecopy.v1.NodeService/NoSuch", "") == grpc::StatusCode::UNIMPLEMENTED);
    CHECK(call("/onecopy.v1.PeerService/Hello", "") == grpc::StatusCode::UNIMPLEMENTED);
    CHECK(call(get_node, "") == grpc::StatusCode::OK);
  }
}

TEST_CASE("connections are counted by who makes them, and taken again once others end") {
  const testing::TempFolder folder;
  const std::string path = folder / "s";
  Reports reports;
  ServerOptions options;
  options.thread = "test";
  options.credentials = grpc::InsecureServerCredentials();
  options.listener.name = "test";
  options.listener.admit = AdmitOrdinary;
  options.ledger = AtMost({2, 10});
  options.listener.greeting = std::chrono::milliseconds(0);
  options.listener.report = reports.Sink();
  auto listening = os::ListenUnix(path, SOCK_STREAM, 0600, 8);
  REQUIRE_OK(listening);
  options.listener.socket = std::move(*listening);
  auto server = Server::Start(std::move(options), {}, [](const Serving&) {});
  REQUIRE_OK(server);

  const auto is_served = [&] {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel =
        grpc::CreateCustomChannel("unix:" + path, grpc::InsecureChannelCredentials(), arguments);
    const auto context = ApiRig::Context("");
    grpc::health::v1::HealthCheckResponse response;
    return grpc::health::v1::Health::NewStub(channel)->Check(context.get(), {}, &response).ok();
  };
  auto first = os::ConnectUnix(path, SOCK_STREAM);
  auto second = os::ConnectUnix(path, SOCK_STREAM);
  REQUIRE_OK(first);
  REQUIRE_OK(second);
  CHECK_FALSE(is_served());
  const Status refused = reports.Next();
  CHECK(refused.reason() == reasons::kQuota);
  INFO(refused.message());
  CHECK(refused.message().starts_with("test: 1000@east has 2 connections on node east"));
  first->Reset();
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!is_served()) REQUIRE(std::chrono::steady_clock::now() < end);
  // One that gRPC ends itself makes room as well.
  SendAll(*second, "garbage that is no HTTP/2 at all, of some length");
  AwaitEnd(*second);
  const auto third = os::ConnectUnix(path, SOCK_STREAM);
  while (!is_served()) REQUIRE(std::chrono::steady_clock::now() < end);
}

TEST_CASE("who connects and says nothing has to go before others are refused") {
  const testing::TempFolder folder;
  const std::string path = folder / "s";
  ServerOptions options;
  options.thread = "test";
  options.credentials = grpc::InsecureServerCredentials();
  options.listener.name = "test";
  options.listener.admit = AdmitOrdinary;
  const bool each = GENERATE(true, false);
  options.ledger = each ? AtMost({2, 10}) : AtMost({2, 2});
  auto listening = os::ListenUnix(path, SOCK_STREAM, 0600, 8);
  REQUIRE_OK(listening);
  options.listener.socket = std::move(*listening);
  auto server = Server::Start(std::move(options), {}, [](const Serving&) {});
  REQUIRE_OK(server);

  auto first = os::ConnectUnix(path, SOCK_STREAM);
  auto second = os::ConnectUnix(path, SOCK_STREAM);
  REQUIRE_OK(first);
  REQUIRE_OK(second);
  const auto channel = grpc::CreateChannel("unix:" + path, grpc::InsecureChannelCredentials());
  const auto context = ApiRig::Context("");
  grpc::health::v1::HealthCheckResponse response;
  CHECK(grpc::health::v1::Health::NewStub(channel)->Check(context.get(), {}, &response).ok());
  AwaitEnd(*first);
}

TEST_CASE("on plain text a local user who is neither root nor the daemon's cannot be a peer") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root can become another user");
  ServingNode serving;
  serving.engine.Run([&] { serving.api.script.AnswerWith(IAm("west")); });
  const auto where = os::ParseHostPort(serving.address());
  REQUIRE_OK(where);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(12345) != 0) ::_exit(1);
    const auto fd = os::ConnectTcp(*where);
    if (!fd.ok()) ::_exit(2);
    pollfd wait{fd->get(), POLLIN, 0};
    if (::poll(&wait, 1, 20'000) != 1) ::_exit(3);
    std::array<char, 16> bytes{};
    ::_exit(::recv(fd->get(), bytes.data(), bytes.size(), 0) <= 0 ? 0 : 4);
  }
  const Status refused = serving.reports.Next();
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(refused.code() == Code::kPermissionDenied);
  CHECK(refused.message().find("uid 12345") != std::string::npos);
  AskingNode asking;
  asking.Dial(serving.address());
  REQUIRE_OK(asking.Hello());
}

// The kernel shows root as the owner of a socket that its process has closed.
TEST_CASE("what another local user sends before it closes is not taken for root's") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root can become another user");
  ServingNode serving;
  serving.engine.Run([&] { serving.api.script.AnswerWith(IAm("west")); });
  const auto where = os::ParseHostPort(serving.address());
  REQUIRE_OK(where);
  const std::string call = RawHello();
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(12345) != 0) ::_exit(1);
    for (int i = 0; i < 100; ++i) {
      const auto fd = os::ConnectTcp(*where);
      if (!fd.ok()) ::_exit(2);
      pollfd wait{fd->get(), POLLOUT, 0};
      if (::poll(&wait, 1, 20'000) != 1) ::_exit(3);
      [[maybe_unused]] const ssize_t sent =
          ::send(fd->get(), call.data(), call.size(), MSG_NOSIGNAL);
    }
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  // Connections are taken in order: those before this one have been judged once it is answered.
  const os::UniqueFd own = ConnectTcp(serving.address());
  SendAll(own, call);
  serving.engine.Await([&] { return serving.api.script.count() > 0; });
  CHECK(serving.engine.Get<std::string>([&] { return serving.api.caller; }) == "east");
  AskingNode asking;
  asking.Dial(serving.address());
  REQUIRE_OK(asking.Hello());
  CHECK(serving.engine.Get<size_t>([&] { return serving.api.script.count(); }) == 2);
}
}  // namespace abuse_test
