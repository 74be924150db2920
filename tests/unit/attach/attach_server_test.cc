#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <future>

#include "onecopy/reasons.h"
#include "proto/codec/status_codec.h"
#include "tests/unit/attach/attach_rig.h"

using namespace onecopy;
using attach::Client;
using attach::Rig;

namespace {

// A memory file, and whether this process, in which the server is, still has it open.
struct File {
  os::UniqueFd fd{::memfd_create("test", MFD_CLOEXEC)};
  struct stat facts {};

  File() { REQUIRE(::fstat(fd.get(), &facts) == 0); }
  bool IsClosed() const {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      struct stat other {};
      if (::stat(entry.path().c_str(), &other) == 0 && other.st_ino == facts.st_ino &&
          other.st_dev == facts.st_dev) {
        return false;
      }
    }
    return true;
  }
};

}  // namespace

TEST_CASE("a client is told where no network device takes dma-bufs") {
  Rig rig([](onecopy::attach::Options& options) { options.takes_dma_bufs = false; });
  Client client(rig.path());
  client.SendHello();
  CHECK(client.Receive().welcome().takes_no_dma_bufs());
}

TEST_CASE("a client that says Hello has a session as who the kernel says it is") {
  Rig rig;
  Client client(rig.path());
  client.SendHello();
  const v1::AttachReply reply = client.Receive();
  REQUIRE(reply.has_welcome());
  CHECK(reply.welcome().protocol() == kClientProtocolMax);
  CHECK(reply.welcome().node() == "east");
  CHECK(reply.welcome().version() == "1.2.3");
  CHECK_FALSE(reply.welcome().takes_no_dma_bufs());
  const auto who = rig.Find(reply.welcome().token());
  REQUIRE_OK(who);
  CHECK(who->uid == ::geteuid());
  CHECK(who->node == "east");
  const engine::ClientIdentity identity = rig.IdentityOf(reply.welcome().token());
  CHECK(identity.pid == ::getpid());
  CHECK(identity.gid == ::getegid());
  CHECK(identity.same_pid_namespace);
  CHECK(identity.program == "test 1.0");
}

TEST_CASE("everybody may connect") {
  Rig rig;
  struct stat facts {};
  REQUIRE(::stat(rig.path().c_str(), &facts) == 0);
  CHECK((facts.st_mode & 07777) == 0666);
}

TEST_CASE("a session ends with its connection, and what it deposited is closed") {
  Rig rig;
  File file;
  Client client(rig.path());
  const std::string token = client.Attach();
  client.SendFds(Client::PassDescriptor(), {file.fd.get()});
  REQUIRE(client.Receive().has_passed());
  file.fd.Reset();
  client.Close();
  rig.WaitForClosed(1);
  CHECK(rig.Find(token).status().reason() == reasons::kNoSession);
  attach::WaitUntil([&] { return file.IsClosed(); });
}

TEST_CASE("a passed descriptor can be taken by its number, and is close-on-exec") {
  Rig rig;
  Client client(rig.path());
  const std::string token = client.Attach();
  auto memfd = os::UniqueFd(::memfd_create("test", MFD_CLOEXEC));
  REQUIRE(::ftruncate(memfd.get(), 4321) == 0);
  client.SendFds(Client::PassDescriptor(), {memfd.get()});
  const v1::AttachReply first = client.Receive();
  REQUIRE(first.has_passed());
  client.SendFds(Client::PassDescriptor(), {memfd.get()});
  const v1::AttachReply second = client.Receive();
  REQUIRE(second.has_passed());
  CHECK(first.passed().fd_handle() != second.passed().fd_handle());
  const auto fd = rig.Take(token, first.passed().fd_handle());
  REQUIRE_OK(fd);
  struct stat facts {};
  REQUIRE(::fstat(fd->get(), &facts) == 0);
  CHECK(facts.st_size == 4321);
  CHECK((::fcntl(fd->get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("requests that were sent at once are answered in order") {
  Rig rig;
  File file;
  Client client(rig.path());
  client.SendHello();
  for (int i = 0; i < 10; ++i) client.SendFds(Client::PassDescriptor(), {file.fd.get()});
  REQUIRE(client.Receive().has_welcome());
  uint64_t last = 0;
  for (int i = 0; i < 10; ++i) {
    const v1::AttachReply reply = client.Receive();
    REQUIRE(reply.has_passed());
    CHECK(reply.passed().fd_handle() > last);
    last = reply.passed().fd_handle();
  }
}

TEST_CASE("a session ends when its client is killed although a child holds the socket") {
  Rig rig;
  std::array<int, 2> alive{};  // read by the client's child, until the test lets go
  REQUIRE(::pipe(alive.data()) == 0);
  std::array<int, 2> attached{};
  REQUIRE(::pipe(attached.data()) == 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    const auto socket = os::ConnectUnix(rig.path(), SOCK_SEQPACKET);
    if (!socket.ok()) ::_exit(1);
    const std::string hello = Client::Hello().SerializeAsString();
    if (!os::SendPacket(socket->get(), hello).ok()) ::_exit(1);
    pollfd wait{socket->get(), POLLIN, 0};
    if (::poll(&wait, 1, attach::kPatienceMs) != 1) ::_exit(1);
    if (::fork() == 0) {
      ::close(alive[1]);
      [[maybe_unused]] const ssize_t told = ::write(attached[1], "x", 1);
      char c = 0;
      [[maybe_unused]] const ssize_t got = ::read(alive[0], &c, 1);
      ::_exit(0);
    }
    ::pause();
    ::_exit(0);
  }
  ::close(alive[0]);
  const os::UniqueFd let_go(alive[1]);
  char c = 0;
  REQUIRE(::read(attached[0], &c, 1) == 1);
  ::close(attached[0]);
  ::close(attached[1]);
  ::kill(parent, SIGKILL);
  REQUIRE(::waitpid(parent, nullptr, 0) == parent);
  rig.WaitForClosed(1);
}

TEST_CASE("a session outlives a child that inherited the socket and ended") {
  Rig rig;
  Client client(rig.path());
  const std::string token = client.Attach();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  File file;
  client.SendFds(Client::PassDescriptor(), {file.fd.get()});
  CHECK(client.Receive().has_passed());
  CHECK(rig.Find(token).ok());
}

TEST_CASE("a client that leaves before it is answered leaves no session behind") {
  Rig rig;
  std::promise<void> held;
  rig.engine().loop().Post([go = held.get_future().share()] { go.wait(); });
  {
    Client client(rig.path());
    client.SendHello();
    Client other(rig.path());
    other.SendHello();
  }
  held.set_value();
  rig.WaitForClosed(2);
}

TEST_CASE("another user is told from ours") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root can become another user");
  Rig rig;
  const auto folder = std::filesystem::path(rig.path()).parent_path();
  REQUIRE(::chmod(folder.c_str(), 0755) == 0);
  std::array<int, 2> token_pipe{};
  REQUIRE(::pipe(token_pipe.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(23456) != 0 || ::setuid(12345) != 0) ::_exit(1);
    const auto socket = os::ConnectUnix(rig.path(), SOCK_SEQPACKET);
    if (!socket.ok()) ::_exit(2);
    if (!os::SendPacket(socket->get(), Client::Hello().SerializeAsString()).ok()) ::_exit(3);
    pollfd wait{socket->get(), POLLIN, 0};
    if (::poll(&wait, 1, attach::kPatienceMs) != 1) ::_exit(4);
    const auto packet = os::ReceivePacket(socket->get(), kMaxAttachBytes);
    v1::AttachReply reply;
    if (!packet.ok() || !*packet || !reply.ParseFromString((*packet)->bytes)) ::_exit(5);
    const std::string token = reply.welcome().token();
    if (::write(token_pipe[1], token.data(), token.size()) < 0) ::_exit(6);
    ::pause();
    ::_exit(0);
  }
  ::close(token_pipe[1]);  // or a child that fails would not be heard of
  std::array<char, 64> token{};
  const ssize_t got = ::read(token_pipe[0], token.data(), token.size());
  ::close(token_pipe[0]);
  REQUIRE(got == 32);
  const auto who = rig.Find(std::string(token.data(), 32));
  const engine::ClientIdentity identity = rig.IdentityOf(std::string(token.data(), 32));
  ::kill(child, SIGKILL);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  REQUIRE_OK(who);
  CHECK(who->uid == 12345);
  CHECK_FALSE(who->administrator);
  CHECK(identity.gid == 23456);
  CHECK(identity.pid == child);
}

TEST_CASE("a client in a PID namespace of its own is known to be in one") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root can make a PID namespace");
  Rig rig;
  std::array<int, 2> attached{};
  REQUIRE(::pipe(attached.data()) == 0);
  const pid_t outer = ::fork();
  if (outer == 0) {
    if (::unshare(CLONE_NEWPID) != 0) ::_exit(1);
    const pid_t inner = ::fork();
    if (inner == 0) {
      const auto socket = os::ConnectUnix(rig.path(), SOCK_SEQPACKET);
      if (!socket.ok()) ::_exit(2);
      if (!os::SendPacket(socket->get(), Client::Hello().SerializeAsString()).ok()) ::_exit(3);
      pollfd wait{socket->get(), POLLIN, 0};
      if (::poll(&wait, 1, attach::kPatienceMs) != 1) ::_exit(4);
      const auto packet = os::ReceivePacket(socket->get(), kMaxAttachBytes);
      v1::AttachReply reply;
      if (!packet.ok() || !*packet || !reply.ParseFromString((*packet)->bytes)) ::_exit(5);
      const std::string token = reply.welcome().token();
      if (::write(attached[1], token.data(), token.size()) < 0) ::_exit(6);
      ::pause();
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(inner, &status, 0);
    ::_exit(0);
  }
  std::array<char, 64> token{};
  const ssize_t got = ::read(attached[0], token.data(), token.size());
  ::close(attached[0]);
  ::close(attached[1]);
  REQUIRE(got == 32);
  const std::string text(token.data(), 32);
  const engine::ClientIdentity identity = rig.IdentityOf(text);
  const auto who = rig.Find(text);
  ::kill(identity.pid, SIGKILL);
  REQUIRE(::waitpid(outer, nullptr, 0) == outer);
  CHECK_FALSE(identity.same_pid_namespace);
  REQUIRE_OK(who);
  CHECK_FALSE(who->administrator);
  rig.WaitForClosed(1);
}

TEST_CASE("stopping ends every session, hangs up and removes the socket") {
  Rig rig;
  Client idle(rig.path());
  Client client(rig.path());
  client.Attach();
  rig.server().Stop();
  rig.WaitForClosed(1);
  client.ExpectEnd();
  idle.ExpectEnd();
  CHECK_FALSE(std::filesystem::exists(rig.path()));
  rig.server().Stop();
}

TEST_CASE("stopping does not wait for an engine that does not answer") {
  Rig rig;
  std::promise<void> held;
  rig.engine().loop().Post([go = held.get_future().share()] { go.wait(); });
  Client client(rig.path());
  client.SendHello();
  rig.server().Stop();
  client.ExpectEnd();
  held.set_value();
}

TEST_CASE("a socket that cannot be made fails the start with its path") {
  os::LoopThread engine("engine");
  engine::Sessions sessions("east", 998);
  attach::Options options;
  options.path = "/no/such/folder/attach.sock";
  const Status status = attach::AttachServer::Start(options, engine.loop(), sessions).status();
  CHECK(status.code() == Code::kNotFound);
  CHECK(status.message().find(options.path) != std::string::npos);
}
