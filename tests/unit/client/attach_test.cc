// Attaching to a daemon: what is refused, and what the client is told.
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "onecopy/reasons.h"
#include "onecopy/v1/attach.pb.h"
#include "proto/codec/protocol.h"
#include "proto/codec/status_codec.h"
#include "tests/unit/client/attach_fixture.h"
#include "tests/unit/client/ordinary_user.h"

namespace attach_test {
namespace {

Status ConnectError(const std::string& run_dir) {
  ConnectOptions options;
  options.run_dir = run_dir;
  options.program = "test 1.0";
  options.timeout = std::chrono::milliseconds(200);
  return Client::Connect(options).status();
}

// What a client is told that says Hello to somebody who gives this answer; `heard` is what it said.
Status ErrorOf(const TempFolder& dir, const std::string& answer, std::string* heard = nullptr) {
  const os::UniqueFd listener = Listen(dir, SOCK_SEQPACKET);
  std::thread server([&] {
    const os::UniqueFd connection(::accept(listener.get(), nullptr, nullptr));
    char packet[4096];
    const ssize_t count = ::recv(connection.get(), packet, sizeof packet, 0);
    if (heard != nullptr && count > 0) heard->assign(packet, static_cast<size_t>(count));
    if (!answer.empty()) ::send(connection.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  });
  const Status status = ConnectError(dir.path());
  server.join();
  return status;
}

}  // namespace

TEST_CASE("a daemon whose run directory another user could have made is not talked to") {
  const TempFolder dir;
  const ServedCluster daemon(dir.path());
  REQUIRE_OK(Client::Connect({.run_dir = dir.path()}));
  const std::string shared = dir / "shared";
  std::filesystem::create_directories(shared);
  std::filesystem::create_directory_symlink(dir.path(), shared + "/run");
  REQUIRE(::chmod(shared.c_str(), 0777) == 0);
  const Status refused = ConnectError(shared + "/run");
  CHECK(refused.reason() == onecopy::reasons::kAccessDenied);
  CHECK(refused.remedy().find("--run-dir") != std::string::npos);
  REQUIRE(::chmod(shared.c_str(), 01777) == 0);
  REQUIRE_OK(Client::Connect({.run_dir = shared + "/run"}));
  if (::geteuid() != 0) ONECOPY_SKIP("only root can give a link away");
  REQUIRE(::lchown((shared + "/run").c_str(), 4711, 4711) == 0);
  CHECK(ConnectError(shared + "/run").reason() == onecopy::reasons::kAccessDenied);
}

TEST_CASE("a client learns its node, the daemon's version, and introduces itself") {
  const TempFolder dir;
  {
    const ServedCluster daemon(dir.path());
    auto client = Client::Connect({.run_dir = dir.path()});
    REQUIRE_OK(client);
    CHECK(client->node() == "east");
    CHECK(client->daemon_version() == "9.9.9");
    CHECK(client->run_dir() == dir.path());
  }
  std::string heard;
  static_cast<void>(ErrorOf(dir, "", &heard));
  v1::AttachRequest said;
  REQUIRE(said.ParseFromString(heard));
  CHECK(said.hello().client() == "test 1.0");
  CHECK(said.hello().protocol_min() == onecopy::kClientProtocolMin);
  CHECK(said.hello().protocol_max() == onecopy::kClientProtocolMax);
}

TEST_CASE("a run directory may have characters that mean something in a URI") {
  const TempFolder dir;
  const std::string odd = dir / "a b%20c#d?e";
  std::filesystem::create_directory(odd);
  const ServedCluster daemon(odd);
  auto client = Client::Connect({.run_dir = odd});
  REQUIRE_OK(client);
  REQUIRE_OK(client->ListNodes());
}

TEST_CASE("without a daemon the client says where it looked and how to start one") {
  const TempFolder dir;
  const Status status = ConnectError(dir.path());
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.reason() == onecopy::reasons::kDaemonUnreachable);
  CHECK(status.message().find(dir.path()) != std::string::npos);
  CHECK(status.remedy().find("onecopyd") != std::string::npos);
  CHECK(ConnectError(dir / "missing").reason() == onecopy::reasons::kDaemonUnreachable);
}

TEST_CASE("a socket that a dead daemon left behind is told apart from none") {
  const TempFolder dir;
  Listen(dir, SOCK_SEQPACKET);  // closed at once
  const Status status = ConnectError(dir.path());
  CHECK(status.reason() == onecopy::reasons::kDaemonUnreachable);
  CHECK(status.message().find("left it behind") != std::string::npos);
}

TEST_CASE("something else at attach.sock is no daemon") {
  const TempFolder dir;
  const os::UniqueFd stream = Listen(dir, SOCK_STREAM);
  CHECK(ConnectError(dir.path()).reason() == onecopy::reasons::kDaemonUnreachable);
}

TEST_CASE("a daemon that does not answer is given up") {
  const TempFolder dir;
  const os::UniqueFd silent = Listen(dir, SOCK_SEQPACKET);
  const Status status = ConnectError(dir.path());
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.message().find("does not answer") != std::string::npos);
}

TEST_CASE("a daemon that answers garbage, nothing known, or hangs up is given up") {
  const TempFolder dir;
  const std::string answer =
      GENERATE(std::string("\xff\xff garbage"), std::string("\x00", 1) + "x", std::string());
  const Status status = ErrorOf(dir, answer);
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.reason() == onecopy::reasons::kDaemonUnreachable);
}

TEST_CASE("a daemon's refusal to attach is passed on") {
  const TempFolder dir;
  v1::AttachReply refusal;
  *refusal.mutable_error() = onecopy::ToProto(
      Status(Code::kResourceExhausted, onecopy::reasons::kQuota, "too many clients", "end some"));
  const Status status = ErrorOf(dir, refusal.SerializeAsString());
  CHECK(status.code() == Code::kResourceExhausted);
  CHECK(status.message() == "too many clients");
  CHECK(status.remedy() == "end some");
}

TEST_CASE("a protocol version outside the client's range is refused by name") {
  const TempFolder dir;
  v1::AttachReply welcome;
  const uint32_t protocol = GENERATE(0U, onecopy::kClientProtocolMax + 1);
  welcome.mutable_welcome()->set_protocol(protocol);
  const Status status = ErrorOf(dir, welcome.SerializeAsString());
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.reason() == onecopy::reasons::kPeerIncompatible);
  CHECK(status.message().find("protocol " + std::to_string(protocol)) != std::string::npos);
}

TEST_CASE("a path too long for a socket is refused before connecting") {
  const Status status = ConnectError("/" + std::string(200, 'x'));
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.remedy().find("shorter") != std::string::npos);
}

TEST_CASE("a run directory without access is a matter of permission") {
  const TempFolder dir;
  const ServedCluster daemon(dir.path());
  REQUIRE(::chmod((dir / "attach.sock").c_str(), 0) == 0);
  const onecopy::testing::AsOrdinaryUser user(dir.path());
  CHECK(ConnectError(dir.path()).code() == Code::kPermissionDenied);
}

TEST_CASE("a daemon without api.sock attaches, and its calls fail as unreachable") {
  const TempFolder dir;
  ServedCluster daemon(dir.path());
  daemon.StopApi();
  auto client = Client::Connect({.run_dir = dir.path()});
  REQUIRE_OK(client);
  const Status status = client->ListNodes().status();
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.reason() == onecopy::reasons::kDaemonUnreachable);
  CHECK(status.message().find(dir.path()) != std::string::npos);
}

TEST_CASE("the session ends with the last object that needs it") {
  const TempFolder dir;
  ServedCluster daemon(dir.path());
  {
    std::optional<onecopy::HostBuffer> kept;
    {
      auto client = Client::Connect({.run_dir = dir.path()});
      REQUIRE_OK(client);
      auto buffer = client->CreateHostBuffer("window", 4096);
      REQUIRE_OK(buffer);
      kept.emplace(std::move(*buffer));
    }
    CHECK(daemon.buffers().size() == 1);
    std::memset(kept->data(), 1, kept->bytes());  // the memory is there, too
  }
  daemon.AwaitBuffers(0);
}

TEST_CASE("after the daemon has gone every call says so") {
  const TempFolder dir;
  auto daemon = std::make_unique<ServedCluster>(dir.path());
  auto client = Client::Connect({.run_dir = dir.path()});
  REQUIRE_OK(client);
  REQUIRE_OK(client->ListBuffers());
  daemon.reset();
  CHECK(client->ListBuffers().status().reason() == onecopy::reasons::kDaemonUnreachable);
  CHECK(client->CreateHostBuffer("x", 1).status().reason() == onecopy::reasons::kDaemonUnreachable);
}

}  // namespace attach_test
