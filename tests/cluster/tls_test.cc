// Daemons with certificates.
#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"
#include "tests/support/certificates.h"

namespace {

using namespace onecopy::testing;

std::string TlsOf(const Authority& authority, const Authority::Files& files) {
  return "[peering]\nreconnect_most = \"200ms\"\n[tls]\nca = \"" + authority.ca() +
         "\"\ncertificate = \"" + files.certificate + "\"\nkey = \"" + files.key + "\"\n";
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
  CheckRefused(stranger.Run({"cp", "a", "west:b"}), 5, "UNAVAILABLE", "PEER_DOWN");
  // West has never met it.
  CHECK(west.Do({"node", "ls"}).size() == 1);
}

TEST_CASE("a node without a certificate is kept out by one that has one, and keeps it out, too") {
  Authority authority;
  Node west("west", {.config = TlsFor(authority, "west")});
  Node plain("plain",
             {.peers = {west.AsPeer()}, .config = "[peering]\nreconnect_most = \"200ms\"\n"});
  plain.WaitForPeer("west", "DISCONNECTED");
  CHECK(west.Do({"node", "ls"}).size() == 1);
  plain.Do({"buffer", "create", "a", "--size", "4096", "--memory", "host"});
  CHECK(plain.Run({"cp", "a", "west:b"}).exit_status == 5);

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
  const auto check = [&](const std::string& text) {
    WriteFile(folder / "config.toml", "version = 1\n" + text);
    return RunCommand("onecopyd", {"config", "check", folder / "config.toml"});
  };
  const CommandResult refused = check("name = \"east\"\nlisten = \"0.0.0.0:0\"\n");
  CHECK(refused.exit_status == 7);
  CHECK(refused.err.find("insecure") != std::string::npos);
  CHECK(check("name = \"east\"\nlisten = \"0.0.0.0:0\"\ninsecure = true\n").exit_status == 0);
  CHECK(check("name = \"east\"\nlisten = \"127.0.0.1:0\"\n").exit_status == 0);

  const CommandResult started = RunCommand(
      "onecopyd", {"--name", "east", "--listen", "0.0.0.0:0", "--run-dir", folder / "run"});
  CHECK(started.exit_status == refused.exit_status);
  CHECK(started.out == "");
  CHECK(started.err.find("insecure") != std::string::npos);
}
