// Real daemons that find each other by a DNS server, which is the test's own.
#include <memory>
#include <set>

#include "onecopy/client.h"
#include "tests/support/catch.h"
#include "tests/support/certificates.h"
#include "tests/support/dns_server.h"
#include "tests/support/node.h"
#include "tests/support/text.h"
#include "transport/os/sockets/host_port.h"

namespace discovery_dns_test {
namespace {

using namespace onecopy;
using namespace onecopy::testing;

constexpr char kService[] = "_onecopy._tcp.cluster.test";
constexpr char kHeadless[] = "nodes.cluster.test";
constexpr char kPeers[] =
    "[peers.\"*\"]\n[peering]\nheartbeat = \"500ms\"\nreconnect_delay_max = \"500ms\"\n";

std::string ByDns(const DnsServer& dns, const std::string& name) {
  return "[discovery]\nkind = \"dns\"\ndns_name = \"" + name + "\"\ndns_server = \"" +
         dns.address() + "\"\n" + kPeers;
}

uint16_t PortOf(const Node& node) { return os::ParseHostPort(node.address())->port; }

// The service has these nodes now.
void Serve(DnsServer& dns, const std::vector<const Node*>& nodes) {
  std::vector<DnsRecord> services;
  std::vector<DnsRecord> addresses;
  for (const Node* node : nodes) {
    const std::string target = node->name() + ".cluster.test";
    services.push_back(SrvRecordOf(kService, target, PortOf(*node)));
    addresses.push_back(ARecord(target, "127.0.0.1"));
    dns.Set(target, kDnsA, {ARecord(target, "127.0.0.1")});
  }
  dns.Set(kService, kDnsSrv, services, addresses);
}

std::set<std::string> PeersOf(const Node& node) {
  std::set<std::string> names;
  auto nodes = node.Connect().ListNodes();
  if (!nodes.ok()) return names;
  for (const NodeInfo& one : *nodes) {
    if (!one.self) names.insert(one.name);
  }
  return names;
}

DiscoveryInfo DiscoveryOf(const Node& node) {
  auto info = node.Connect().GetNode();
  return info.ok() ? info->discovery.value_or(DiscoveryInfo()) : DiscoveryInfo();
}

// Waits for one more answer than there was.
void WaitForAnswer(const DnsServer& dns) {
  const uint64_t before = dns.queries();
  WaitUntil("the DNS is asked twice more", [&] { return dns.queries() >= before + 2; });
}

}  // namespace

TEST_CASE("nodes find each other by SRV records and a node that leaves is not shown any more") {
  DnsServer dns;
  Node east("east", {.config = ByDns(dns, kService)});
  auto west = std::make_unique<Node>("west", NodeOptions{.config = ByDns(dns, kService)});
  Serve(dns, {&east, west.get()});
  east.WaitForPeer("west");
  west->WaitForPeer("east");
  // It moves.
  west = std::make_unique<Node>("west", NodeOptions{.config = ByDns(dns, kService)});
  Serve(dns, {&east, west.get()});
  WaitUntil("east has west's other address", [&] {
    auto info = east.Connect().GetNode("west");
    return info.ok() && info->address == west->address() && info->state == NodeState::kConnected;
  });
  // Until here, east may know west by its calls alone.
  WaitUntil("east discovers west", [&] { return DiscoveryOf(east).peers == 1; });
  // The records go before the node: it stays as long as it answers.
  Serve(dns, {&east});
  WaitUntil("east does not discover west any more", [&] { return DiscoveryOf(east).peers == 0; });
  WaitForAnswer(dns);
  CHECK(PeersOf(east).contains("west"));
  west->Kill();
  WaitUntil("east does not show west any more", [&] { return !PeersOf(east).contains("west"); });
}

TEST_CASE("while no DNS server answers known peers go on") {
  DnsServer dns;
  Node east("east", {.config = ByDns(dns, kService)});
  Node west("west", {.config = ByDns(dns, kService)});
  Serve(dns, {&east, &west});
  east.WaitForPeer("west");
  dns.Silence(true);
  WaitUntil("east tells it", [&] { return !DiscoveryOf(east).viability.viable; });
  CHECK(PeersOf(east).contains("west"));
  dns.Silence(false);
  WaitUntil("it works again", [&] { return DiscoveryOf(east).viability.viable; });
  CHECK(PeersOf(east).contains("west"));
}

TEST_CASE("a DNS server that lies harms no known peer") {
  DnsServer dns;
  Node east("east", {.config = ByDns(dns, kService)});
  Node west("west", {.config = ByDns(dns, kService)});
  Serve(dns, {&east, &west});
  east.WaitForPeer("west");
  // Names that point in circles.
  dns.Lie([](const DnsBytes& query) {
    DnsRecord circle = SrvRecordOf(kService, "x", 7701);
    circle.data = {0, 0, 0, 0, 30, 21, 0xc0, 0x0c};
    DnsBytes message = DnsMessage(query, {circle});
    message[12] = 0xc0;
    message[13] = 0x0c;
    return message;
  });
  WaitForAnswer(dns);
  // Records of other names, and west where nobody is.
  dns.Lie([](const DnsBytes& query) {
    return DnsMessage(query,
                      {SrvRecordOf("other.test", "north.cluster.test", 1),
                       SrvRecordOf(kService, "west.cluster.test", 1)},
                      {ARecord("west.cluster.test", "127.0.0.1")});
  });
  WaitForAnswer(dns);
  WaitUntil("east counts the record of another name",
            [&] { return DiscoveryOf(east).refused >= 1; });
  CHECK(PeersOf(east) == std::set<std::string>{"west"});
  CHECK(east.Connect().GetNode("west")->state == NodeState::kConnected);
  // As many as an answer holds, by TCP.
  dns.Lie([](const DnsBytes& query) {
    std::vector<DnsRecord> many;
    for (int i = 0; i < 1000; ++i) {
      many.push_back(SrvRecordOf(kService, "n" + std::to_string(i) + ".test", 7701));
    }
    return DnsMessage(query, many);
  });
  const uint64_t before = dns.tcp_queries();
  WaitUntil("the DNS is asked over TCP", [&] { return dns.tcp_queries() > before; });
  CHECK(east.Connect().GetNode("west")->state == NodeState::kConnected);
  dns.Lie(nullptr);
  WaitUntil("all is as before", [&] {
    return DiscoveryOf(east).viability.viable && PeersOf(east) == std::set<std::string>{"west"};
  });
}

TEST_CASE("a DNS server that is silent over TCP keeps no daemon from going on or from its end") {
  DnsServer dns;
  Node east("east", {.config = ByDns(dns, kService)});
  Node west("west", {.config = ByDns(dns, kService)});
  Serve(dns, {&east, &west});
  east.WaitForPeer("west");
  dns.HoldStreams(true);
  dns.Lie([](const DnsBytes& query) {
    return DnsMessage(query, std::vector<DnsRecord>(40, SrvRecordOf(kService, "n.test", 7701)));
  });
  WaitUntil("a question waits", [&] { return dns.held() > 0; });
  WaitUntil("east tells it", [&] { return !DiscoveryOf(east).viability.viable; });
  CHECK(PeersOf(east).contains("west"));
  const uint64_t before = dns.held();
  WaitUntil("another question waits", [&] { return dns.held() > before; });
  CHECK(east.Stop() == 0);
}

TEST_CASE("nodes behind plain addresses are known by their certificates") {
  DnsServer dns;
  Authority authority;
  const auto options = [&](const std::string& name, const std::string& listen) {
    const auto files = authority.Issue(name, "DNS:" + name);
    return NodeOptions{.config = "[tls]\nca = \"" + authority.ca() + "\"\ncertificate = \"" +
                                 files.certificate + "\"\nkey = \"" + files.key + "\"\n" +
                                 ByDns(dns, kHeadless),
                       .listen = listen};
  };
  Node east("east", options("east", "127.0.0.1:0"));
  const std::string port = std::to_string(PortOf(east));
  // One port at addresses of their own.
  Node west("west", options("west", "127.0.0.2:" + port));
  Node north("north", options("north", "127.0.0.3:" + port));
  dns.Set(kHeadless, kDnsA,
          {ARecord(kHeadless, "127.0.0.1"), ARecord(kHeadless, "127.0.0.2"),
           ARecord(kHeadless, "127.0.0.3"), ARecord(kHeadless, "127.0.0.9")});
  for (const Node* node : {&east, &west, &north}) {
    WaitUntil(node->name() + " knows the others", [&] { return PeersOf(*node).size() == 2; });
  }
  east.WaitForPeer("west");
  west.WaitForPeer("north");
  CHECK(east.Connect().GetNode("west")->address == west.address());
  WaitUntil("east has asked all of them", [&] {
    const DiscoveryInfo seen = DiscoveryOf(east);
    return seen.peers == 2 && seen.refused == 1;  // nobody is at one of them
  });
  // A question for a name is no news to the node that is asked.
  CHECK_FALSE(Has(west.Log(), "was refused or ended"));
}

}  // namespace discovery_dns_test
