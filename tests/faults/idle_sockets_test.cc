// Somebody who connects again and again and says nothing, or next to nothing, keeps nobody out.
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "tests/support/certificates.h"
#include "transport/os/sockets/host_port.h"
#include "transport/os/sockets/unix_socket.h"

namespace idle_sockets_test {
namespace {

using onecopy::os::UniqueFd;
using namespace onecopy::testing;

// More than any port takes of those that say nothing.
constexpr size_t kIdle = 1200;

// Keeps so many connections open that say nothing; those that are ended, or could not be made, are
// made anew.
class Idlers {
 public:
  using Connect = std::function<onecopy::Result<UniqueFd>()>;

  explicit Idlers(Connect connect)
      : connect_(std::move(connect)), sockets_(kIdle), thread_([this] { Run(); }) {
    WaitUntil("the port is crowded", [this] { return filled_.load(); });
  }
  ~Idlers() {
    stop_ = true;
    thread_.join();
  }

 private:
  void Run() {
    std::vector<pollfd> watched(kIdle);
    size_t rounds = 0;
    while (!stop_) {
      for (size_t i = 0; i < kIdle; ++i) {
        if (!sockets_[i]) {
          auto made = connect_();
          if (made.ok()) sockets_[i] = std::move(*made);
        }
        watched[i] = {sockets_[i].get(), POLLRDHUP, 0};
      }
      if (++rounds >= 2) filled_ = true;  // a queue that was full has been taken from
      ::poll(watched.data(), watched.size(), 20);
      for (size_t i = 0; i < kIdle; ++i) {
        if (watched[i].revents != 0) sockets_[i].Reset();
      }
    }
  }

  const Connect connect_;
  std::vector<UniqueFd> sockets_;
  std::atomic<bool> filled_ = false;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

onecopy::Result<UniqueFd> ConnectTo(const std::string& address) {
  return onecopy::os::ConnectTcp(Must(onecopy::os::ParseHostPort(address)));
}

std::string LanesOf(const Node& node) {
  const Json shown = node.Do({"node", "show"});
  for (const Json& link : shown.at("links")) {
    if (link.at("name") == "tcp") return link.at("attributes").at("listen");
  }
  throw std::runtime_error("no tcp link");
}

void AllowManySockets() {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = limit.rlim_max;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  if (limit.rlim_cur < 2 * kIdle) WARN("few descriptors: " << limit.rlim_cur);
}

// How many bytes of `text`, sent one by one, were taken before the daemon ended the connection.
size_t Drip(const UniqueFd& socket, const std::string& text) {
  pollfd ended = {socket.get(), POLLOUT, 0};
  REQUIRE(::poll(&ended, 1, 60'000) == 1);
  ended.events = POLLRDHUP;
  for (size_t sent = 0; sent < text.size(); ++sent) {
    if (::send(socket.get(), text.data() + sent, 1, MSG_NOSIGNAL) != 1) return sent;
    // The pause between two bytes; none of them alone is late.
    if (::poll(&ended, 1, 1000) != 0) return sent + 1;
  }
  return text.size();
}

}  // namespace

TEST_CASE("a crowd of silent sockets at the lanes' port does not keep a peer's lanes out") {
  AllowManySockets();
  Pair pair;
  const std::string lanes = LanesOf(pair.east);
  const Idlers idlers([&] { return ConnectTo(lanes); });
  CheckMoves(pair.east, pair.west);  // for which west connects to that port
}

// With certificates: without them, on loopback, the daemon looks up the process of each that
// connects, and on a busy machine a crowd of its own user's keeps it busy.
TEST_CASE("a crowd of silent sockets at the peers' port does not keep a peer out") {
  AllowManySockets();
  Authority authority;
  const auto config = [&](const std::string& name) {
    const Authority::Files files = authority.Issue(name, "DNS:" + name);
    return "uid_domain = \"test\"\n[peers.\"*\"]\nuid_domain = \"test\"\n[peering]\nheartbeat = "
           "\"200ms\"\nreconnect_delay_max = \"200ms\"\n[tls]\nca = \"" +
           authority.ca() + "\"\ncertificate = \"" + files.certificate + "\"\nkey = \"" +
           files.key + "\"\n";
  };
  Node west("west", {.config = config("west")});
  Node east("east", {.peers = {west.AsPeer()}, .config = config("east")});
  east.WaitForPeer("west");
  const std::string address = west.address();
  const Idlers idlers([&] { return ConnectTo(address); });
  // It must connect anew.
  east.Kill();
  west.WaitForPeer("east", "DISCONNECTED");
  east.Restart();
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  CheckMoves(east, west);
}

TEST_CASE("a crowd of silent connections to attach.sock does not keep a client out") {
  AllowManySockets();
  Node node("alone");
  const std::string path = node.run_dir() + "/attach.sock";
  const Idlers idlers([&] { return onecopy::os::ConnectUnix(path, SOCK_SEQPACKET); });
  CheckServes(node);
}

TEST_CASE("who says one byte now and then is ended as who says nothing") {
  Node node("alone");
  CHECK(Drip(Must(ConnectTo(LanesOf(node))), std::string("OCP2") + std::string(36, '\1')) < 20);
  CHECK(Drip(Must(ConnectTo(node.address())),
             "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(9, '\0')) < 30);
}
}  // namespace idle_sockets_test
