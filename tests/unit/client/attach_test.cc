#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "onecopy/client.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/unit/client/fake_daemon.h"
#include "tests/unit/client/temp_dir.h"

using onecopy::Client;
using onecopy::Code;
using onecopy::ConnectOptions;
using onecopy::Status;
using onecopy::testing::FakeDaemon;
using onecopy::testing::TempDir;

namespace os = onecopy::os;

namespace {

Status ConnectError(const std::string& run_dir) {
  ConnectOptions options;
  options.run_dir = run_dir;
  options.timeout = std::chrono::milliseconds(200);
  return Client::Connect(options).status();
}

// A listener of its own at attach.sock.
os::UniqueFd Listen(const TempDir& dir, int type) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, (dir / "attach.sock").c_str());
  os::UniqueFd listener(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listener.get(), 8) == 0);
  return listener;
}

}  // namespace

TEST_CASE("a client learns its node, the daemon's version, and introduces itself") {
  const TempDir dir;
  FakeDaemon daemon(dir.path());
  ConnectOptions options;
  options.run_dir = dir.path();
  options.program = "test 1.0";
  auto client = Client::Connect(options);
  REQUIRE_OK(client);
  CHECK(client->node() == "east");
  CHECK(client->daemon_version() == "9.9.9");
  CHECK(client->run_dir() == dir.path());
  CHECK(daemon.last_client() == "test 1.0");
}

TEST_CASE("a run directory may have characters that mean something in a URI") {
  const TempDir dir;
  const std::string odd = dir / "a b%20c#d?e";
  std::filesystem::create_directory(odd);
  FakeDaemon daemon(odd);
  auto client = Client::Connect({.run_dir = odd});
  REQUIRE_OK(client);
  REQUIRE_OK(client->ListNodes());
}

TEST_CASE("without a daemon the client says where it looked and how to start one") {
  const TempDir dir;
  const Status status = ConnectError(dir.path());
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.reason() == onecopy::reasons::kDaemonUnreachable);
  CHECK(status.message().find(dir.path()) != std::string::npos);
  CHECK(status.remedy().find("onecopyd") != std::string::npos);
  CHECK(ConnectError(dir / "missing").reason() == onecopy::reasons::kDaemonUnreachable);
}

TEST_CASE("a socket that a dead daemon left behind is told apart from none") {
  const TempDir dir;
  Listen(dir, SOCK_SEQPACKET);  // closed at once
  const Status status = ConnectError(dir.path());
  CHECK(status.reason() == onecopy::reasons::kDaemonUnreachable);
  CHECK(status.message().find("left behind") != std::string::npos);
}

TEST_CASE("something else at attach.sock is no daemon") {
  const TempDir dir;
  const os::UniqueFd stream = Listen(dir, SOCK_STREAM);
  CHECK(ConnectError(dir.path()).reason() == onecopy::reasons::kDaemonUnreachable);
}

TEST_CASE("a daemon that does not answer is given up") {
  const TempDir dir;
  const os::UniqueFd silent = Listen(dir, SOCK_SEQPACKET);
  const Status status = ConnectError(dir.path());
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.message().find("does not answer") != std::string::npos);
}

TEST_CASE("a daemon that answers garbage, nothing known, or hangs up is given up") {
  const TempDir dir;
  const std::string answer =
      GENERATE(std::string("\xff\xff garbage"), std::string("\x00", 1) + "x", std::string());
  const os::UniqueFd listener = Listen(dir, SOCK_SEQPACKET);
  std::thread server([&] {
    const os::UniqueFd connection(::accept(listener.get(), nullptr, nullptr));
    char packet[4096];
    static_cast<void>(!::recv(connection.get(), packet, sizeof packet, 0));
    if (!answer.empty()) ::send(connection.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  });
  const Status status = ConnectError(dir.path());
  server.join();
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.reason() == onecopy::reasons::kDaemonUnreachable);
}

TEST_CASE("a daemon's refusal to attach is passed on") {
  const TempDir dir;
  FakeDaemon::Options options;
  options.attach_error =
      Status(Code::kResourceExhausted, onecopy::reasons::kQuota, "too many clients", "end some");
  FakeDaemon daemon(dir.path(), options);
  const Status status = ConnectError(dir.path());
  CHECK(status.code() == Code::kResourceExhausted);
  CHECK(status.message() == "too many clients");
  CHECK(status.remedy() == "end some");
}

TEST_CASE("a protocol version outside the client's range is refused by name") {
  const TempDir dir;
  FakeDaemon::Options options;
  options.protocol = 7;
  FakeDaemon daemon(dir.path(), options);
  const Status status = ConnectError(dir.path());
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.reason() == onecopy::reasons::kPeerIncompatible);
  CHECK(status.message().find("protocol 7") != std::string::npos);
}

TEST_CASE("a path too long for a socket is refused before connecting") {
  const Status status = ConnectError("/" + std::string(200, 'x'));
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.remedy().find("shorter") != std::string::npos);
}

TEST_CASE("a run directory without access is a matter of permission") {
  const TempDir dir;
  FakeDaemon daemon(dir.path());
  REQUIRE(::chmod((dir / "attach.sock").c_str(), 0) == 0);
  const onecopy::testing::AsOrdinaryUser user(dir.path());
  CHECK(ConnectError(dir.path()).code() == Code::kPermissionDenied);
}

TEST_CASE("a daemon without api.sock attaches, and its calls fail as unreachable") {
  const TempDir dir;
  FakeDaemon::Options options;
  options.attach_only = true;
  FakeDaemon daemon(dir.path(), options);
  auto client = Client::Connect({.run_dir = dir.path()});
  REQUIRE_OK(client);
  const Status status = client->ListNodes().status();
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.reason() == onecopy::reasons::kDaemonUnreachable);
  CHECK(status.message().find(dir.path()) != std::string::npos);
}

TEST_CASE("the session ends with the last object that needs it") {
  const TempDir dir;
  FakeDaemon daemon(dir.path());
  {
    std::optional<onecopy::HostBuffer> kept;
    {
      auto client = Client::Connect({.run_dir = dir.path()});
      REQUIRE_OK(client);
      auto buffer = client->CreateHostBuffer("window", 4096);
      REQUIRE_OK(buffer);
      kept.emplace(std::move(*buffer));
    }
    daemon.AwaitSessions(1);
    CHECK(daemon.buffer_count() == 1);
  }
  daemon.AwaitSessions(0);
  CHECK(daemon.buffer_count() == 0);
}

TEST_CASE("after the daemon has gone every call says so") {
  const TempDir dir;
  auto daemon = std::make_unique<FakeDaemon>(dir.path());
  auto client = Client::Connect({.run_dir = dir.path()});
  REQUIRE_OK(client);
  REQUIRE_OK(client->ListBuffers());
  daemon.reset();
  CHECK(client->ListBuffers().status().reason() == onecopy::reasons::kDaemonUnreachable);
  CHECK(client->CreateHostBuffer("x", 1).status().reason() == onecopy::reasons::kDaemonUnreachable);
}
