#include "transport/os/sockets/unix_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "transport/os/sockets/socket_owner.h"

using namespace onecopy;
using onecopy::testing::TempFolder;

namespace {

mode_t ModeOf(const std::string& path) {
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  return facts.st_mode & 07777;
}

os::UniqueFd AcceptOne(const os::UniqueFd& listener) {
  pollfd wait{listener.get(), POLLIN, 0};
  REQUIRE(::poll(&wait, 1, 10000) == 1);
  return os::UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

}  // namespace

TEST_CASE("a listening Unix socket has exactly the mode asked for, whatever the umask") {
  const TempFolder folder;
  const mode_t before = ::umask(0077);
  const auto listener = os::ListenUnix(folder / "s", SOCK_STREAM, 0666, 4);
  ::umask(before);
  REQUIRE_OK(listener);
  CHECK(ModeOf(folder / "s") == 0666);
}

TEST_CASE("a socket that takes the place of another one never has another mode") {
  const TempFolder folder;
  const std::string path = folder / "s";
  REQUIRE_OK(os::ListenUnix(path, SOCK_STREAM, 0666, 4));
  std::atomic<bool> over = false;
  std::atomic<uint64_t> looks = 0;
  uint64_t wrong = 0;
  std::thread client([&] {
    for (; !over; ++looks) {
      struct stat facts {};
      if (::stat(path.c_str(), &facts) != 0 || (facts.st_mode & 07777) != 0666) ++wrong;
    }
  });
  const mode_t before = ::umask(0077);
  for (int i = 0; i < 2000 || looks < 1000; ++i) {
    if (!os::ListenUnix(path, SOCK_STREAM, 0666, 4).ok()) ++wrong;
  }
  ::umask(before);
  over = true;
  client.join();
  CHECK(wrong == 0);
}

TEST_CASE("a stale socket file is replaced, any other file is not") {
  const TempFolder folder;
  { REQUIRE_OK(os::ListenUnix(folder / "s", SOCK_STREAM, 0600, 4)); }
  CHECK(os::ConnectUnix(folder / "s", SOCK_STREAM).status().code() == Code::kUnavailable);
  const auto listener = os::ListenUnix(folder / "s", SOCK_STREAM, 0600, 4);
  REQUIRE_OK(listener);
  REQUIRE_OK(os::ConnectUnix(folder / "s", SOCK_STREAM));

  std::ofstream(folder / "file") << "precious";
  const Status refused = os::ListenUnix(folder / "file", SOCK_STREAM, 0600, 4).status();
  CHECK(refused.code() == Code::kAlreadyExists);
  std::string kept;
  std::ifstream(folder / "file") >> kept;
  CHECK(kept == "precious");
}

TEST_CASE("a path too long for a socket is refused by its length") {
  const std::string longest = "/" + std::string(106, 'x');
  CHECK(os::CheckSocketPath(longest).ok());
  const Status refused = os::CheckSocketPath(longest + "x");
  CHECK(refused.code() == Code::kInvalidArgument);
  CHECK(refused.message().find("107 bytes") != std::string::npos);
  CHECK_FALSE(refused.remedy().empty());
  CHECK(os::CheckSocketPath("").code() == Code::kInvalidArgument);
  CHECK(os::ListenUnix(longest + "x", SOCK_STREAM, 0600, 4).status().code() ==
        Code::kInvalidArgument);
}

TEST_CASE("the kernel names the process that connected") {
  const TempFolder folder;
  const auto listener = os::ListenUnix(folder / "s", SOCK_SEQPACKET, 0600, 4);
  REQUIRE_OK(listener);
  const auto client = os::ConnectUnix(folder / "s", SOCK_SEQPACKET);
  REQUIRE_OK(client);
  const os::UniqueFd served = AcceptOne(*listener);
  const auto peer = os::UnixPeer(served.get());
  REQUIRE_OK(peer);
  CHECK(peer->pid == ::getpid());
  CHECK(peer->uid == ::geteuid());
  CHECK(peer->gid == ::getegid());
  const auto pidfd = os::UnixPeerPidfd(served.get(), *peer);
  REQUIRE_OK(pidfd);
  REQUIRE(*pidfd);
  CHECK_FALSE(os::HasEnded(*pidfd));
}

TEST_CASE("the pidfd of a client that was killed says so while a child of it holds the socket") {
  const TempFolder folder;
  const auto listener = os::ListenUnix(folder / "s", SOCK_SEQPACKET, 0600, 4);
  REQUIRE_OK(listener);
  std::array<int, 2> alive{};  // its writing end is held by the client's child
  REQUIRE(::pipe(alive.data()) == 0);
  const pid_t client = ::fork();
  if (client == 0) {
    [[maybe_unused]] const auto socket = os::ConnectUnix(folder / "s", SOCK_SEQPACKET);
    if (::fork() == 0) {
      ::close(alive[1]);
      char c = 0;
      [[maybe_unused]] const ssize_t got = ::read(alive[0], &c, 1);  // until the test lets go
      ::_exit(0);
    }
    ::pause();
    ::_exit(0);
  }
  ::close(alive[0]);
  const os::UniqueFd let_go(alive[1]);
  const os::UniqueFd served = AcceptOne(*listener);
  const auto peer = os::UnixPeer(served.get());
  REQUIRE_OK(peer);
  CHECK(peer->pid == client);
  const auto pidfd = os::UnixPeerPidfd(served.get(), *peer);
  REQUIRE_OK(pidfd);
  CHECK_FALSE(os::HasEnded(*pidfd));
  ::kill(client, SIGKILL);
  REQUIRE(::waitpid(client, nullptr, 0) == client);
  CHECK(os::HasEnded(*pidfd));
}

TEST_CASE("a process that has the number of one that connected is not taken for it") {
  const TempFolder folder;
  const auto listener = os::ListenUnix(folder / "s", SOCK_SEQPACKET, 0600, 4);
  REQUIRE_OK(listener);
  // Made before there is a connection: it has no part in it, whatever its number.
  const pid_t stranger = ::fork();
  REQUIRE(stranger >= 0);
  if (stranger == 0) {
    while (true) ::pause();
  }
  const auto client = os::ConnectUnix(folder / "s", SOCK_SEQPACKET);
  REQUIRE_OK(client);
  const os::UniqueFd served = AcceptOne(*listener);
  CHECK(os::HoldsFarEnd(::getpid(), served.get()) == true);
  CHECK(os::HoldsFarEnd(stranger, served.get()) == false);
  const auto own = os::PidfdByNumber(served.get(), ::getpid());
  REQUIRE_OK(own);
  CHECK_FALSE(os::HasEnded(*own));
  const Status other = os::PidfdByNumber(served.get(), stranger).status();
  CHECK(other.code() == Code::kAborted);
  CHECK(other.reason() == reasons::kOwnerDied);
  // One that has ended has no descriptors to be seen.
  ::kill(stranger, SIGKILL);
  siginfo_t ended{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(stranger), &ended, WEXITED | WNOWAIT) == 0);
  CHECK_FALSE(os::HoldsFarEnd(stranger, served.get()).value_or(false));
  REQUIRE(::waitpid(stranger, nullptr, 0) == stranger);
  CHECK(os::PidfdByNumber(served.get(), stranger).status().reason() == reasons::kOwnerDied);
}
