// Daemons whose log nobody reads.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include <set>
#include <sstream>
#include <string>

#include "tests/cluster/receipts.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "transport/os/sockets/packet.h"
#include "transport/os/sockets/unix_socket.h"

namespace log_test {
namespace {

using namespace onecopy;
using namespace onecopy::testing;

constexpr char kPlain[] = "[log]\nformat = \"text\"\nlevel = \"debug\"\n";

// Each leaves records that fill a pipe of 4 KiB many times over.
void MoveManyTimes(Client& client, int times) {
  const HostBuffer from = Must(client.CreateHostBuffer("", 4096));
  const HostBuffer to = Must(client.CreateHostBuffer("", 4096));
  for (int i = 0; i < times; ++i) {
    const auto done = client.RunTransfer({.source = from.endpoint(), .destination = to.endpoint()});
    REQUIRE_OK(done);
    REQUIRE_OK(OutcomeOf(*done));
  }
}

// What is there to read by and by, until `wanted` has come.
std::string ReadUntil(int fd, const std::string& wanted) {
  std::string text;
  while (text.find(wanted) == std::string::npos) {
    pollfd input = {fd, POLLIN, 0};
    if (::poll(&input, 1, 60'000) <= 0) break;
    char piece[65536];
    const ssize_t count = ::read(fd, piece, sizeof piece);
    if (count <= 0) break;
    text.append(piece, static_cast<size_t>(count));
  }
  return text;
}

size_t CountOf(const std::string& text, const std::string& wanted) {
  size_t count = 0;
  for (size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("a daemon serves on while nobody reads its standard error") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const os::UniqueFd reader(ends[0]);
  os::UniqueFd writer(ends[1]);
  REQUIRE(::fcntl(writer.get(), F_SETPIPE_SZ, 4096) >= 4096);
  constexpr int kTransfers = 400;
  Node east("east", {.config = kPlain, .in_child = [&] { ::dup2(writer.get(), 2); }});
  writer.Reset();
  {
    Client client = Must(Client::Connect({.run_dir = east.run_dir(), .use_ring = false}));
    MoveManyTimes(client, kTransfers);
  }
  CheckServes(east);
  SECTION("once it is read, every record comes") {
    const std::string log = ReadUntil(reader.get(), "path=local copies=1 bytes=100003");
    CHECK(CountOf(log, "transfer ended") >= kTransfers);
    CHECK(log.find("records were dropped") == std::string::npos);
  }
  SECTION("what there was no room for is counted and said") {
    Client client = Must(Client::Connect({.run_dir = east.run_dir(), .use_ring = false}));
    MoveManyTimes(client, 6000);
    const std::string log = ReadUntil(reader.get(), "records were dropped here");
    CHECK(log.find("records=", log.find("records were dropped here")) != std::string::npos);
  }
  SECTION("it stops when it is told to") { CHECK(east.Stop() == 0); }
}

TEST_CASE("a peer that was never reached is told with its name and why, once for each cause") {
  // Takes connections, and ends them.
  const os::UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(listener.get(), raw, size) == 0);
  REQUIRE(::listen(listener.get(), 16) == 0);
  REQUIRE(::getsockname(listener.get(), raw, &size) == 0);
  const std::string ghost = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  const Node east("east", {.peers = {"ghost=" + ghost},
                           .config = "[peering]\nreconnect_delay_max = \"100ms\"\n"});
  for (int dialled = 0; dialled < 4; ++dialled) {
    const os::UniqueFd connection(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    REQUIRE(connection);
  }
  const std::string line = "warning peer DISCONNECTED peer=ghost address=" + ghost + " why=";
  WaitUntil("it is logged", [&] { return CountOf(east.Log(), line) > 0; });
  std::set<std::string> causes;
  std::istringstream log(east.Log());
  for (std::string one; std::getline(log, one);) {
    const size_t at = one.find(line);
    if (at == std::string::npos) continue;
    INFO(one);
    CHECK(causes.insert(one.substr(at)).second);
    CHECK(one.size() > at + line.size() + 2);
  }
}

TEST_CASE("a client's nonsense is no line of any library's in the log") {
  const Node east("east");
  const os::UniqueFd socket =
      Must(os::ConnectUnix(east.run_dir() + "/attach.sock", SOCK_SEQPACKET));
  // A hello whose client's name is no UTF-8.
  Must(os::SendPacket(socket.get(), "\x0a\x06\x08\x01\x1a\x02\xc3\x28"));
  pollfd answer = {socket.get(), POLLIN, 0};
  REQUIRE(::poll(&answer, 1, 60'000) == 1);
  CheckServes(east);
  CHECK(east.Log().find("libprotobuf") == std::string::npos);
}

TEST_CASE("Ctrl-S on the daemon's terminal stops nothing but the terminal") {
  int master = -1;
  int slave = -1;
  REQUIRE(::openpty(&master, &slave, nullptr, nullptr, nullptr) == 0);
  const os::UniqueFd screen(master);
  const os::UniqueFd terminal(slave);
  REQUIRE(::fcntl(master, F_SETFD, FD_CLOEXEC) == 0);
  REQUIRE(::tcflow(slave, TCOOFF) == 0);
  Node east("east", {.config = kPlain, .in_child = [&] { ::dup2(slave, 2); }});
  {
    Client client = Must(Client::Connect({.run_dir = east.run_dir(), .use_ring = false}));
    MoveManyTimes(client, 400);
  }
  CheckServes(east);
  REQUIRE(::tcflow(slave, TCOON) == 0);
  CHECK(ReadUntil(master, "transfer ended").find("serving") != std::string::npos);
}
}  // namespace log_test
