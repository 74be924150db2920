// Who holds a TCP socket, found without a look at every process.
#include "transport/os/sockets/socket_mark.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include "tests/support/catch.h"
#include "transport/os/machine/namespaces.h"
#include "transport/os/sockets/host_port.h"
#include "transport/os/sockets/socket_owner.h"
#include "transport/os/sockets/unix_socket.h"

namespace socket_mark_test {
using namespace onecopy;

namespace {

// Processes that do nothing, and end with this.
class Crowd {
 public:
  explicit Crowd(size_t count) {
    for (size_t i = 0; i < count; ++i) Add([] {});
  }
  ~Crowd() {
    for (const pid_t pid : pids_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  // One that first does this.
  template <typename Act>
  pid_t Add(Act act) {
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      act();
      while (true) ::pause();
    }
    pids_.push_back(pid);
    return pid;
  }

 private:
  std::vector<pid_t> pids_;
};

// The listening end, in this process.
struct Served {
  Served() : listener(*os::ListenTcp({"127.0.0.1", 0}, 4)) {}
  os::HostPort where() const { return *os::LocalAddress(listener.get()); }
  os::FarSocket Accept() {
    pollfd wait{listener.get(), POLLIN, 0};
    REQUIRE(::poll(&wait, 1, 10000) == 1);
    taken = os::UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const auto far = os::FindFarSocket(taken.get());
    REQUIRE_OK(far);
    REQUIRE(far->has_value());
    return **far;
  }

  os::UniqueFd listener;
  os::UniqueFd taken;
};

// Connects, with its socket marked before the other side can see it.
void ConnectMarked(const os::HostPort& where) {
  static os::UniqueFd socket;
  static os::UniqueFd mark;
  auto connected = os::ConnectTcp(where, [](int fd) {
    auto marked = os::MarkSocket(fd);
    if (marked.ok()) mark = std::move(*marked);
  });
  if (connected.ok()) socket = std::move(*connected);
}

}  // namespace

TEST_CASE("of many processes the only one that is read is the one that has marked its socket") {
  Served served;
  Crowd crowd(20);
  const pid_t holder = crowd.Add([where = served.where()] { ConnectMarked(where); });
  const Crowd after(20);
  const os::FarSocket far = served.Accept();
  CHECK(os::MarkedHolder(far.port) == holder);
  const auto marked = os::FindSocketHolder(far.inode, os::MarkedHolder(far.port));
  REQUIRE(marked.has_value());
  CHECK(marked->processes_read == 1);
  CHECK(marked->namespaces.pid.own);
  CHECK(marked->namespaces.user.own);
  // Without the mark it is found as well, among all the others.
  const auto sought = os::FindSocketHolder(far.inode, std::nullopt);
  REQUIRE(sought.has_value());
  CHECK(sought->processes_read > 20);
}

TEST_CASE("a process that is named and has no such socket proves nothing") {
  Served served;
  const auto client = os::ConnectTcp(served.where());
  REQUIRE_OK(client);
  const os::FarSocket far = served.Accept();
  const auto found = os::FindSocketHolder(far.inode, ::getppid());
  REQUIRE(found.has_value());
  CHECK(found->processes_read > 1);
  CHECK_FALSE(os::FindSocketHolder(1, ::getpid()).has_value());  // nobody's
}

TEST_CASE("a port is marked once at a time, and by nobody once the mark is closed") {
  Served served;
  const uint16_t port = served.where().port;
  CHECK(os::MarkedHolder(port) == std::nullopt);
  auto mark = os::MarkSocket(served.listener.get());
  REQUIRE_OK(mark);
  CHECK(os::MarkedHolder(port) == ::getpid());
  CHECK_FALSE(os::MarkSocket(served.listener.get()).ok());
  mark->Reset();
  CHECK(os::MarkedHolder(port) == std::nullopt);
}

}  // namespace socket_mark_test
