#include "transport/os/sockets/socket_owner.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "tests/support/catch.h"
#include "transport/os/sockets/host_port.h"

using namespace onecopy;

namespace {

struct StreamPair {
  os::UniqueFd client;
  os::UniqueFd served;
};

os::UniqueFd WaitAccept(const os::UniqueFd& listener) {
  pollfd wait{listener.get(), POLLIN, 0};
  REQUIRE(::poll(&wait, 1, 10000) == 1);
  return os::UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

StreamPair Connect(const std::string& listen_at, const std::string& connect_to) {
  auto listener = os::ListenTcp({listen_at, 0}, 4);
  REQUIRE_OK(listener);
  const auto local = os::LocalAddress(listener->get());
  REQUIRE_OK(local);
  auto client = os::ConnectTcp({connect_to, local->port});
  REQUIRE_OK(client);
  os::UniqueFd served = WaitAccept(*listener);
  return {std::move(*client), std::move(served)};
}

void CheckOwnedByUs(const StreamPair& pair) {
  const auto far = os::FindFarSocket(pair.served.get());
  REQUIRE_OK(far);
  REQUIRE(far->has_value());
  CHECK((*far)->uid == ::geteuid());
}

}  // namespace

TEST_CASE("the owner of a connection over IPv4, IPv6 and IPv4 written as IPv6 is found") {
  CheckOwnedByUs(Connect("127.0.0.1", "127.0.0.1"));
  CheckOwnedByUs(Connect("::1", "::1"));
  CheckOwnedByUs(Connect("::", "127.0.0.1"));
  CheckOwnedByUs(Connect("127.0.0.1", "::ffff:127.0.0.1"));
}

TEST_CASE("another user's connection is told from ours") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root can become another user");
  auto listener = os::ListenTcp({"127.0.0.1", 0}, 4);
  REQUIRE_OK(listener);
  const auto local = os::LocalAddress(listener->get());
  REQUIRE_OK(local);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(12345) != 0) ::_exit(1);
    [[maybe_unused]] const auto socket = os::ConnectTcp(*local);
    ::pause();
    ::_exit(0);
  }
  const os::UniqueFd served = WaitAccept(*listener);
  const auto far = os::FindFarSocket(served.get());
  ::kill(child, SIGKILL);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  REQUIRE_OK(far);
  REQUIRE(far->has_value());
  CHECK((*far)->uid == 12345);
}

// The kernel says that root owns a socket without a process, so whoever sends and closes at once
// must not pass for root.
TEST_CASE("a connection that its client has closed is nobody's, though bytes of it are unread") {
  StreamPair pair = Connect("127.0.0.1", "127.0.0.1");
  REQUIRE(::send(pair.client.get(), "hello", 5, 0) == 5);
  pair.client.Reset();
  std::array<char, 8> bytes{};
  REQUIRE(::recv(pair.served.get(), bytes.data(), 1, MSG_WAITALL) == 1);
  pollfd closed{pair.served.get(), POLLRDHUP, 0};
  REQUIRE(::poll(&closed, 1, 10000) == 1);
  CHECK(os::FindFarSocket(pair.served.get()).status().code() == Code::kUnavailable);
}

TEST_CASE("a connection that its client has reset is nobody's") {
  StreamPair pair = Connect("127.0.0.1", "127.0.0.1");
  const linger at_once{1, 0};
  REQUIRE(::setsockopt(pair.client.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
  pair.client.Reset();
  pollfd closed{pair.served.get(), POLLRDHUP, 0};
  REQUIRE(::poll(&closed, 1, 10000) == 1);
  CHECK_FALSE(os::FindFarSocket(pair.served.get()).ok());
}
