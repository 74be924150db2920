// Bytes that nobody should send, on every socket of a daemon.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <random>

#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "tests/support/sanitized.h"
#include "transport/link/tcp/frame.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/sockets/host_port.h"
#include "transport/os/sockets/unix_socket.h"

namespace garbage_test {
namespace {

using onecopy::os::UniqueFd;
using namespace onecopy::testing;
namespace tcp = onecopy::tcp;

constexpr uint64_t kMaxGrowth = uint64_t{64} << 20;
constexpr int kPatienceMs = 60'000;

std::string Random(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

std::string Text(const tcp::HeaderBytes& header) {
  return {reinterpret_cast<const char*>(header.data()), header.size()};
}

// A header of HTTP/2: length (24 bits), kind, flags, stream.
std::string Http2Frame(uint32_t length, uint8_t kind, uint32_t stream, const std::string& body) {
  std::string frame;
  for (const uint32_t part : {length >> 16, length >> 8, length, uint32_t{kind}, 0U, stream >> 24,
                              stream >> 16, stream >> 8, stream}) {
    frame.push_back(static_cast<char>(part));
  }
  return frame + body;
}

// Beginnings of what each socket expects, and things that it does not.
std::vector<std::string> Attacks(const std::string& right_beginning) {
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  std::vector<std::string> all = {
      "",
      "\n",
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
      preface.substr(0, 5),
      preface + Http2Frame(0xffffff, 4, 0, Random(65'536, 1)),
      preface + Http2Frame(0, 4, 0, "") + Http2Frame(0xffffff, 1, 1, Random(65'536, 2)),
      preface + Http2Frame(0, 4, 0, "") + Http2Frame(100'000, 0, 1, Random(100'000, 3)),
      preface + Http2Frame(0, 4, 0, "") + Http2Frame(16, 1, 1, Random(16, 4)),
      std::string(1 << 20, '\0'),
      std::string(1 << 20, '\xff'),
      right_beginning.substr(0, right_beginning.size() / 2),
      right_beginning + Random(100'000, 5),
  };
  for (uint32_t seed = 10; seed < 20; ++seed) all.push_back(Random(seed * 500, seed));
  return all;
}

// Sends as much as is taken, and waits until the daemon has closed, or has nothing against it.
void Send(const UniqueFd& socket, const std::string& bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t count =
        ::send(socket.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      sent += static_cast<size_t>(count);
      continue;
    }
    if (errno != EAGAIN) return;  // closed already
    pollfd wanted = {socket.get(), POLLOUT, 0};
    REQUIRE(::poll(&wanted, 1, kPatienceMs) > 0);
  }
}

UniqueFd ConnectTo(const std::string& address) {
  UniqueFd socket = Must(onecopy::os::ConnectTcp(Must(onecopy::os::ParseHostPort(address))));
  pollfd wanted = {socket.get(), POLLOUT, 0};
  REQUIRE(::poll(&wanted, 1, kPatienceMs) > 0);
  return socket;
}

void WaitForEnd(const UniqueFd& socket) {
  pollfd wanted = {socket.get(), POLLRDHUP, 0};
  REQUIRE(::poll(&wanted, 1, kPatienceMs) > 0);
}

// HOST:PORT of a node's lanes, as it tells.
std::string LanesOf(const Node& node) {
  const Json shown = node.Do({"node", "show"});
  for (const Json& link : shown.at("links")) {
    if (link.at("name") == "tcp") return link.at("attributes").at("listen");
  }
  throw std::runtime_error("no tcp link");
}

// Two nodes under attack. One transfer is under way all the time.
struct Attacked {
  Survivors nodes{kSlowLanes};
  Node& east = nodes.east;
  pid_t pid = east.process().pid();
  onecopy::Client client = east.Connect();
  onecopy::TransferId running;
  uint64_t memory = 0;
  size_t log_bytes = 0;
  size_t descriptors = 0;

  Attacked() {
    nodes.Check();  // whatever is set up once is there now
    east.Do({"buffer", "create", "a", "--size", "64MiB"});
    nodes.west.Do({"buffer", "create", "b", "--size", "64MiB"});
    running = Must(client.StartTransfer({.source = {"", "a", {}, {}},
                                         .destination = {"west", "b", {}, {}},
                                         .policy = {},
                                         .checksum = true}))
                  .id;
    memory = ResidentBytes(pid);
    descriptors = OpenDescriptors(pid);
    log_bytes = east.Log().size();
  }
  // Its own pages, of which those of buffer "a" are none, have not grown; nor has its log.
  void Check() {
    const auto done = Must(client.AwaitTransfer(running));
    REQUIRE_OK(onecopy::OutcomeOf(done));
    CHECK(done.receipt.checksum->verified);
    nodes.Check();
    WaitUntil("connections are closed", [&] { return OpenDescriptors(pid) <= descriptors + 8; });
    east.Do({"buffer", "rm", "a"});
    // AddressSanitizer keeps what was freed.
    if (!kAddressSanitizer) CHECK(ResidentBytes(pid) < memory + kMaxGrowth);
    const std::string log = east.Log();
    INFO(log.substr(log_bytes, 2000));
    CHECK(log.size() < log_bytes + 10'000);
  }
};

}  // namespace

TEST_CASE("garbage at the port for peers harms nobody") {
  Attacked attacked;
  for (const std::string& attack : Attacks("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")) {
    Send(ConnectTo(attacked.east.address()), attack);
  }
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 100; ++i) idle.push_back(ConnectTo(attacked.east.address()));
  attacked.nodes.Check();
  idle.clear();
  attacked.Check();
}

TEST_CASE("garbage at the lanes' port harms nobody, nor do tokens that are wrong") {
  Attacked attacked;
  const std::string lanes = LanesOf(attacked.east);
  const std::string hello =
      Text(Encode(tcp::FrameHeader{.kind = tcp::FrameKind::kHello, .key = 1, .offset = 2}));
  for (const std::string& attack : Attacks(hello)) Send(ConnectTo(lanes), attack);
  for (uint8_t kind = 0; kind < 9; ++kind) {
    for (const uint64_t bytes : {uint64_t{0}, uint64_t{1} << 32, UINT64_MAX}) {
      const UniqueFd socket = ConnectTo(lanes);
      Send(socket, Text(Encode(tcp::FrameHeader{.kind = static_cast<tcp::FrameKind>(kind),
                                                .tag = bytes,
                                                .key = 7,
                                                .offset = 8,
                                                .bytes = bytes})));
      WaitForEnd(socket);  // none of these is a lane's
    }
  }
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 100; ++i) {
    idle.push_back(ConnectTo(lanes));
    if (i % 2 == 0) Send(idle.back(), hello.substr(0, static_cast<size_t>(i) % 40));
  }
  attacked.nodes.Check();
  idle.clear();
  attacked.Check();
}

TEST_CASE("garbage on api.sock harms nobody") {
  Attacked attacked;
  const std::string path = attacked.east.run_dir() + "/api.sock";
  for (const std::string& attack : Attacks("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")) {
    Send(Must(onecopy::os::ConnectUnix(path, SOCK_STREAM)), attack);
  }
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 100; ++i) idle.push_back(Must(onecopy::os::ConnectUnix(path, SOCK_STREAM)));
  attacked.nodes.Check();
  idle.clear();
  attacked.Check();
}

TEST_CASE("garbage on attach.sock harms nobody") {
  Attacked attacked;
  const std::string path = attacked.east.run_dir() + "/attach.sock";
  const auto connect = [&] { return Must(onecopy::os::ConnectUnix(path, SOCK_SEQPACKET)); };
  const std::string hello =
      "\x0a\x09\x08\x01\x10\x01\x1a\x03"
      "abc";
  for (const std::string& attack : Attacks(hello)) {
    const UniqueFd socket = connect();
    Send(socket, attack.substr(0, 100'000));  // one packet
    if (!attack.empty()) WaitForEnd(socket);
  }
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 100; ++i) idle.push_back(connect());
  attacked.nodes.Check();
  idle.clear();
  attacked.Check();
}
}  // namespace garbage_test
