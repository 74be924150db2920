// Daemons with certificates.
#include <arpa/inet.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <net/ethernet.h>

#include <filesystem>
#include <stdexcept>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"
#include "tests/support/certificates.h"

namespace tls_test {
namespace {

using namespace onecopy::testing;

// Whoever has a certificate of the authority may be a peer, and its users are the same.
constexpr char kPeers[] =
    "uid_domain = \"test\"\n[peers.\"*\"]\nuid_domain = \"test\"\n[peering]\n"
    "reconnect_delay_max = \"200ms\"\n";

std::string TlsOf(const Authority& authority, const Authority::Files& files) {
  return kPeers + ("[tls]\nca = \"" + authority.ca()) + "\"\ncertificate = \"" + files.certificate +
         "\"\nkey = \"" + files.key + "\"\n";
}

std::string TlsFor(Authority& authority, const std::string& name) {
  return TlsOf(authority, authority.Issue(name, "DNS:" + name));
}

// Waits until the node has tried that peer and failed, and says how it lists it then.
Json WaitForRefusal(const Node& node, const std::string& peer, const std::string& reason) {
  Json seen;
  WaitUntil(node.name() + " sees " + peer + " with " + reason, [&] {
    seen = node.Do({"node", "show", peer});
    return seen.at("reason") == reason;
  });
  return seen;
}

// Hears all that passes over loopback from now on.
class Listener {
 public:
  Listener() : fd_(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL))) {
    if (!fd_) throw std::runtime_error("no packet socket");
    const int bytes = 64 << 20;
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
    sockaddr_ll loopback{};
    loopback.sll_family = AF_PACKET;
    loopback.sll_protocol = htons(ETH_P_ALL);
    loopback.sll_ifindex = static_cast<int>(::if_nametoindex("lo"));
    if (::bind(fd_.get(), reinterpret_cast<sockaddr*>(&loopback), sizeof loopback) != 0) {
      throw std::runtime_error("cannot listen to lo");
    }
  }

  // All of it so far; fails unless it is at least as much.
  std::string Heard(size_t at_least) const {
    std::string heard;
    std::string packet(70'000, '\0');
    while (true) {
      const ssize_t got = ::recv(fd_.get(), packet.data(), packet.size(), MSG_DONTWAIT);
      if (got <= 0) break;
      heard.append(packet.data(), static_cast<size_t>(got));
    }
    REQUIRE(heard.size() >= at_least);
    return heard;
  }

 private:
  onecopy::os::UniqueFd fd_;
};

}  // namespace

TEST_CASE("nodes with certificates of one authority move bytes in both directions") {
  Authority authority;
  Node west("west", {.config = TlsFor(authority, "west")});
  Node east("east", {.peers = {west.AsPeer()}, .config = TlsFor(authority, "east")});
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  const std::string payload = Payload(3'000'001);
  east.Do({"buffer", "create", "a", "--size", "3000001", "--memory", "host"});
  west.Do({"buffer", "create", "b", "--size", "3000001", "--memory", "host"});
  east.Do({"cp", "-", "a"}, payload);
  CheckReceipt(east.Do({"cp", "a", "west:b", "--checksum"}), {"tcp-direct", 3'000'001, true});
  CHECK(Contents(west, "b") == payload);
  CheckReceipt(west.Do({"cp", "b@1+3000000", "east:a", "--path", "tcp-staged"}),
               {"tcp-staged", 3'000'000, false});
  CHECK(Contents(east, "a@0+3000000") == payload.substr(1));
}

TEST_CASE("a node with another authority's certificate is kept out, and both sides say why") {
  Authority ours;
  Authority theirs;
  Node west("west", {.config = TlsFor(ours, "west")});
  Node stranger("stranger", {.peers = {west.AsPeer()}, .config = TlsFor(theirs, "stranger")});
  const Json seen = WaitForRefusal(stranger, "west", "CERT_REJECTED");
  CHECK(seen.at("state") != "CONNECTED");
  CHECK(seen.at("detail") != "");
  const Json listed = stranger.Do({"node", "ls"});
  REQUIRE(listed.size() == 2);
  CHECK(listed[1].at("name") == "west");
  CHECK(listed[1].at("reason") == "CERT_REJECTED");
  stranger.Do({"buffer", "create", "a", "--size", "4096", "--memory", "host"});
  CheckRefused(stranger.Run({"cp", "a", "west:b"}), 5, "UNAVAILABLE", "CERT_REJECTED");
  const CommandResult refused = stranger.Run({"buffer", "ls", "west"});
  CheckRefused(refused, 5, "UNAVAILABLE", "CERT_REJECTED");
  CHECK(refused.out.find("[tls]") != std::string::npos);  // what to do about it
  // West has never met it.
  CHECK(west.Do({"node", "ls"}).size() == 1);
}

TEST_CASE("a node without a certificate is kept out by one that has one, and keeps it out, too") {
  Authority authority;
  Node west("west", {.config = TlsFor(authority, "west")});
  Node plain("plain",
             {.peers = {west.AsPeer()}, .config = "[peering]\nreconnect_delay_max = \"200ms\"\n"});
  plain.WaitForPeer("west", "DISCONNECTED");
  CHECK(west.Do({"node", "ls"}).size() == 1);
  plain.Do({"buffer", "create", "a", "--size", "4096", "--memory", "host"});
  CHECK(plain.Run({"cp", "a", "west:b"}).exit_status == 5);
  WaitUntil("it is seen to be silent", [&] {
    const CommandResult silent = plain.Run({"buffer", "ls", "west"});
    CheckRefused(silent, 5, "UNAVAILABLE", "PEER_DOWN");
    return silent.out.find("set [tls] on both nodes") != std::string::npos;
  });

  Node east("east", {.peers = {plain.AsPeer()}, .config = TlsFor(authority, "east")});
  east.Do({"buffer", "create", "a", "--size", "4096", "--memory", "host"});
  CHECK(east.Run({"cp", "a", "plain:b"}).exit_status == 5);
  const Json seen = east.Do({"node", "show", "plain"});
  CHECK(seen.at("state") == "DISCONNECTED");
  CHECK(seen.at("detail") != "");
  CHECK(plain.Do({"node", "ls"}).size() == 2);  // itself and west
}

TEST_CASE("a certificate for another name than the node's does not let the daemon start") {
  Authority authority;
  const TempFolder folder;
  WriteFile(folder / "config.toml",
            "version = 1\n" + TlsOf(authority, authority.Issue("east", "DNS:east")));
  const CommandResult started =
      RunCommand("onecopyd", {"--name", "west", "--listen", "127.0.0.1:0", "--lanes", "127.0.0.1:0",
                              "--run-dir", folder / "run", "--config", folder / "config.toml"});
  CHECK(started.exit_status != 0);
  CHECK(started.exit_status < 1000);
  CHECK(started.out == "");
  CHECK(started.err.find("east") != std::string::npos);
}

TEST_CASE("plain text beyond loopback needs insecure = true") {
  const TempFolder folder;
  Authority authority;
  const auto check = [&](const std::string& text) {
    WriteFile(folder / "config.toml", "version = 1\nname = \"east\"\n" + text);
    return RunCommand("onecopyd", {"config", "check", folder / "config.toml"});
  };
  const auto refused = [&](const std::string& text, const std::string& what,
                           const std::string& remedy) {
    const CommandResult result = check(text);
    INFO(text << result.err);
    CHECK(result.exit_status == 2);
    CHECK(result.err.find(what) != std::string::npos);
    CHECK(result.err.find(remedy) != std::string::npos);
  };
  const auto right = [&](const std::string& text) {
    const CommandResult result = check(text);
    INFO(text << result.err);
    CHECK(result.exit_status == 0);
  };
  const std::string peer = "[peers.west]\naddress = \"10.0.0.2:7701\"\n";
  refused("listen = \"0.0.0.0:0\"\n", "0.0.0.0:0", "insecure = true");
  refused(peer, "peer west is 10.0.0.2:7701", "insecure = true");
  refused("[peers.west]\naddress = \"west.example:7701\"\n", "west.example", "insecure = true");
  right("listen = \"0.0.0.0:0\"\ninsecure = true\n" + peer);
  right("listen = \"127.0.0.1:0\"\n[peers.west]\naddress = \"127.0.0.1:7701\"\n");

  const auto start = [&](const std::string& flag, const std::string& value) {
    const CommandResult started =
        RunCommand("onecopyd", {"--name", "east", "--run-dir", folder / "run", flag, value});
    INFO(flag << value << started.err);
    CHECK(started.exit_status == 2);
    CHECK(started.out == "");
    CHECK(started.err.find("insecure") != std::string::npos);
  };
  start("--listen", "0.0.0.0:0");
  start("--peer", "west=10.0.0.2:7701");
}

TEST_CASE("with certificates the payload is encrypted, and the receipt says how and by whom") {
  Authority authority;
  Node west("west", {.config = TlsFor(authority, "west")});
  Node east("east", {.peers = {west.AsPeer()}, .config = TlsFor(authority, "east")});
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  const std::string payload = Payload(40'000'003);
  east.Do({"buffer", "create", "a", "--size", "40000003", "--memory", "host"});
  west.Do({"buffer", "create", "b", "--size", "40000003", "--memory", "host"});
  east.Do({"cp", "-", "a"}, payload);
  const Json receipt = east.Do({"cp", "a", "west:b", "--checksum"});
  INFO(receipt.dump(1));
  const std::string encryption = receipt.at("encryption");
  CHECK(encryption.starts_with("TLS 1.3, TLS_"));
  CHECK(Contents(west, "b") == payload);
  // Who encrypts in a pass of its own, has it among the steps.
  const bool by_kernel = encryption.ends_with(", by kernel");
  CHECK((by_kernel || encryption.ends_with(", by daemon")));
  CHECK(receipt.at("path") == "tcp-direct");
  CHECK(receipt.at("copies") == (by_kernel ? 3 : 5));
  CHECK(receipt.at("steps").size() == (by_kernel ? 3 : 5));
  if (!by_kernel) {
    CHECK(receipt.at("steps")[0].at("to") == "tls");
    CHECK(receipt.at("steps")[1].at("from") == "tls");
    CHECK(receipt.at("steps")[3].at("to") == "tls");
    CHECK(receipt.at("steps")[4].at("from") == "tls");
  }
  // Every byte went through each of them.
  for (const Json& step : receipt.at("steps")) CHECK(step.at("bytes") == 40'000'003);
  // The plan knew it: what may not take as many copies is refused before a byte moves.
  CheckRefused(east.Run({"cp", "a", "west:b", "--at-most", by_kernel ? "2" : "4"}), 7,
               "FAILED_PRECONDITION", "POLICY_UNMET");
  CHECK(east.Do({"explain", "a", "west:b"}).at("path") == "tcp-direct");
  CHECK(Contents(west, "b@1+100") == payload.substr(1, 100));
}

TEST_CASE("lanes are plain text only where both nodes say so") {
  Authority authority;
  const auto encryption = [&](bool west_plain, bool east_plain) {
    const auto config = [&](const std::string& name, bool plain) {
      return TlsFor(authority, name) + (plain ? "lanes_plain = true\n" : "");
    };
    Node west("west", {.config = config("west", west_plain)});
    Node east("east", {.peers = {west.AsPeer()}, .config = config("east", east_plain)});
    east.WaitForPeer("west");
    west.WaitForPeer("east");
    east.Do({"buffer", "create", "a", "--size", "100000", "--memory", "host"});
    west.Do({"buffer", "create", "b", "--size", "100000", "--memory", "host"});
    const Json out = east.Do({"cp", "a", "west:b"});
    const Json in = east.Do({"cp", "west:b", "a"});
    CHECK(out.at("encryption") == in.at("encryption"));
    CHECK(out.at("copies") == in.at("copies"));
    return out.at("encryption").get<std::string>();
  };
  CHECK(encryption(true, true) == "none");
  CHECK(encryption(true, false).starts_with("TLS 1.3"));
  CHECK(encryption(false, true).starts_with("TLS 1.3"));
}

TEST_CASE("nothing of the payload can be read on the wire") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root may look at what passes over loopback");
  Authority authority;
  Node west("west", {.config = TlsFor(authority, "west")});
  Node east("east", {.peers = {west.AsPeer()}, .config = TlsFor(authority, "east")});
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  std::string payload;
  while (payload.size() < 200'000) payload += "this must not be read by anybody. ";
  const std::string size = std::to_string(payload.size());
  east.Do({"buffer", "create", "a", "--size", size, "--memory", "host"});
  west.Do({"buffer", "create", "b", "--size", size, "--memory", "host"});
  east.Do({"cp", "-", "a"}, payload);
  const Listener listener;
  east.Do({"cp", "a", "west:b", "--checksum"});
  const std::string heard = listener.Heard(payload.size());
  CHECK(heard.find("must not be read") == std::string::npos);
  CHECK(Contents(west, "b") == payload);
}

namespace {

// A node's own certificate files, to be replaced while it runs.
struct Papers {
  TempFolder folder;
  std::string ca = folder / "ca.pem";
  Authority::Files own{folder / "own.pem", folder / "own.key"};
  std::string crl = folder / "crl.pem";

  Papers(Authority& authority, const std::string& node) { Replace(authority, node); }

  void Replace(Authority& authority, const std::string& node) {
    const auto issued = authority.Issue(node, "DNS:" + node);
    Put(authority.ca(), ca);
    Put(issued.certificate, own.certificate);
    Put(issued.key, own.key);
    Put(authority.Revoke({}), crl);
  }
  static void Put(const std::string& from, const std::string& to) {
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
  }
  std::string Section() const {
    return "[tls]\nca = \"" + ca + "\"\ncertificate = \"" + own.certificate + "\"\nkey = \"" +
           own.key + "\"\ncrl = \"" + crl + "\"\n";
  }
};

const std::string kQuick = std::string(kPeers) + "heartbeat = \"200ms\"\n";

void ReadAgain(Node& node, const std::string& until_it_says) {
  const size_t before = node.Log().size();
  node.process().Signal(SIGHUP);
  WaitUntil(node.name() + " says " + until_it_says,
            [&] { return node.Log().find(until_it_says, before) != std::string::npos; });
}

}  // namespace

TEST_CASE("certificates are replaced under running daemons, one by one, by another authority's") {
  Authority first;
  Authority second;
  Papers of_west(first, "west");
  Papers of_east(first, "east");
  Node west("west", {.config = kQuick + of_west.Section()});
  Node east("east", {.peers = {west.AsPeer()}, .config = kQuick + of_east.Section()});
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  east.Do({"buffer", "create", "a", "--size", "4096", "--memory", "host"});
  west.Do({"buffer", "create", "b", "--size", "4096", "--memory", "host"});
  CheckReceipt(east.Do({"cp", "a", "west:b"}), {"tcp-direct", 4096, false});

  // West changes over: neither believes the other, and each says why.
  of_west.Replace(second, "west");
  ReadAgain(west, "new files of [tls] are in use");
  WaitForRefusal(east, "west", "CERT_REJECTED");
  CHECK(east.Run({"cp", "a", "west:b"}).exit_status != 0);
  // East, too: they are what they were.
  of_east.Replace(second, "east");
  ReadAgain(east, "new files of [tls] are in use");
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  CheckReceipt(east.Do({"cp", "a", "west:b"}), {"tcp-direct", 4096, false});
}

TEST_CASE("files of [tls] that become wrong change nothing, and are told of") {
  Authority authority;
  Papers of_west(authority, "west");
  Papers of_east(authority, "east");
  Node west("west", {.config = kQuick + of_west.Section() + "reload = \"100ms\"\n"});
  Node east("east", {.peers = {west.AsPeer()}, .config = kQuick + of_east.Section()});
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  // Found without a signal: west reads them often.
  WriteFile(of_west.own.certificate, "nothing");
  WaitUntil("west says so",
            [&] { return west.Log().find("the files of [tls] are invalid") != std::string::npos; });
  CHECK(west.Log().find(of_west.own.certificate) != std::string::npos);
  east.Do({"buffer", "create", "a", "--size", "4096", "--memory", "host"});
  west.Do({"buffer", "create", "b", "--size", "4096", "--memory", "host"});
  CheckReceipt(east.Do({"cp", "a", "west:b"}), {"tcp-direct", 4096, false});
  of_west.Replace(authority, "west");
  WaitUntil("west has the new one",
            [&] { return west.Log().find("new files of [tls] are in use") != std::string::npos; });
  CheckReceipt(east.Do({"cp", "a", "west:b"}), {"tcp-direct", 4096, false});
}

TEST_CASE("a node whose certificate is revoked loses what is open to it") {
  Authority authority;
  Papers of_west(authority, "west");
  Papers of_east(authority, "east");
  const std::string slow = "[tcp]\nlanes = 1\nchunk_bytes = \"4KiB\"\ngets_per_lane = 1\n";
  Node west("west", {.config = kQuick + slow + of_west.Section()});
  Node east("east", {.peers = {west.AsPeer()}, .config = kQuick + slow + of_east.Section()});
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  const std::string size = std::to_string(uint64_t{1} << 30);
  for (Node* node : {&west, &east}) {
    for (const char* name : {"a", "b"}) {
      node->Do({"buffer", "create", name, "--size", size, "--memory", "host"});
    }
  }
  // One that east reads, and one that west reads.
  const std::string out = east.Do({"cp", "west:a", "b", "--detach"}).at("id");
  const std::string in = west.Do({"cp", "east:a", "b", "--detach"}).at("id");
  east.WaitForTransfer(out, "RUNNING");
  west.WaitForTransfer(in, "RUNNING");

  Papers::Put(authority.Revoke({of_east.own}), of_west.crl);
  ReadAgain(west, "new files of [tls] are in use");
  const Json seen = WaitForRefusal(west, "east", "CERT_REJECTED");
  CHECK(seen.at("detail").get<std::string>().find("revoked") != std::string::npos);
  CHECK(west.WaitForTransfer(in, "FAILED").at("state") == "FAILED");
  CHECK(east.WaitForTransfer(out, "FAILED").at("state") == "FAILED");
  WaitForRefusal(east, "west", "CERT_REJECTED");
  CHECK(east.Run({"cp", "b@0+4096", "west:b@0+4096"}).exit_status != 0);
  CHECK(west.Run({"cp", "b@0+4096", "east:b@0+4096"}).exit_status != 0);
}
}  // namespace tls_test
