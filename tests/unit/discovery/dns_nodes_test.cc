#include "daemon/discovery/dns_nodes.h"

#include <atomic>
#include <chrono>
#include <map>
#include <string_view>

#include "daemon/discovery/resolver.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/dns_server.h"

namespace onecopy::discovery {
namespace {

constexpr char kListed[] = "_onecopy._tcp.test";

Status NoServer() { return {Code::kUnavailable, reasons::kIo, "no server answers"}; }

// A DNS and the nodes behind its addresses, as a test wants them.
struct DnsRig {
  std::map<std::string, DnsAnswer> answers;  // what is not here does not exist
  std::map<std::string, bool> broken;
  std::map<std::string, Result<std::string>> behind;  // nodes, by address

  Result<DnsAnswer> Ask(const std::string& name, DnsType type) {
    if (broken[name]) return NoServer();
    if (type == DnsType::kAaaa || !answers.contains(name)) return DnsAnswer();
    return answers.at(name);
  }
  DnsNodes Nodes(const std::string& name) {
    return {name, 7701, [this](const auto& of, DnsType type) { return Ask(of, type); },
            [this](const std::vector<os::HostPort>& where) {
              std::vector<Result<std::string>> names;
              for (const os::HostPort& one : where) names.push_back(behind.at(one.ToString()));
              return names;
            }};
  }
  void Serve(const std::vector<SrvRecord>& services) {
    DnsAnswer answer;
    answer.services = services;
    for (const SrvRecord& service : services) answer.more[service.target];
    answer.ttl_seconds = 30;
    answers[kListed] = answer;
  }
  void Place(const std::string& name, std::vector<std::string> addresses) {
    DnsAnswer answer;
    answer.addresses = std::move(addresses);
    answer.ttl_seconds = 20;
    answers[name] = answer;
  }
};

TEST_CASE("a service's target is resolved and names the node by its first label") {
  DnsRig rig;
  rig.Serve({{"west.test", 7701}, {"-bad.test", 7701}});
  rig.Place("west.test", {"10.0.0.2"});
  DnsNodes nodes = rig.Nodes(kListed);
  const auto look = nodes.LookAgain();
  REQUIRE_OK(look);
  CHECK(look->snapshot.entries == std::vector<Entry>{{"west", "10.0.0.2:7701"}});
  CHECK(look->snapshot.refused == 1);
  CHECK(look->ttl_seconds == 20);
}

TEST_CASE("a node that is missing once is kept and missing twice is not") {
  DnsRig rig;
  rig.Serve({{"west.test", 7701}});
  rig.Place("west.test", {"10.0.0.2"});
  DnsNodes nodes = rig.Nodes(kListed);
  REQUIRE_OK(nodes.LookAgain());
  rig.Serve({});
  auto look = nodes.LookAgain();
  REQUIRE_OK(look);
  CHECK(look->snapshot.entries.size() == 1);
  CHECK(look->any_missing);
  look = nodes.LookAgain();
  REQUIRE_OK(look);
  CHECK(look->snapshot.entries.empty());
  // Failures are no answers.
  rig.Serve({{"west.test", 7701}});
  REQUIRE_OK(nodes.LookAgain());
  rig.broken[kListed] = true;
  for (int i = 0; i < 5; ++i) CHECK_FALSE(nodes.LookAgain().ok());
  rig.broken[kListed] = false;
  look = nodes.LookAgain();
  REQUIRE_OK(look);
  CHECK(look->snapshot.entries.size() == 1);
}

TEST_CASE("one target that cannot be resolved leaves the others and its own last address") {
  DnsRig rig;
  rig.Serve({{"north.test", 7701}, {"west.test", 7701}});
  rig.Place("west.test", {"10.0.0.2"});
  rig.Place("north.test", {"10.0.0.3"});
  DnsNodes nodes = rig.Nodes(kListed);
  REQUIRE_OK(nodes.LookAgain());
  rig.broken["north.test"] = true;
  const auto look = nodes.LookAgain();
  REQUIRE_OK(look);
  CHECK(look->snapshot.entries ==
        std::vector<Entry>{{"north", "10.0.0.3:7701"}, {"west", "10.0.0.2:7701"}});
}

TEST_CASE("a node keeps its address while that is among its addresses") {
  DnsRig rig;
  rig.Serve({{"west.test", 7701}});
  rig.Place("west.test", {"10.0.0.5"});
  DnsNodes nodes = rig.Nodes(kListed);
  REQUIRE_OK(nodes.LookAgain());
  rig.Place("west.test", {"10.0.0.2", "10.0.0.5"});
  auto look = nodes.LookAgain();
  REQUIRE_OK(look);
  CHECK(look->snapshot.entries[0].address == "10.0.0.5:7701");
  CHECK(look->snapshot.conflicts.empty());
  // Two ports are two daemons.
  rig.Serve({{"west.test", 7701}, {"west.test", 7703}});
  look = nodes.LookAgain();
  REQUIRE_OK(look);
  CHECK(look->snapshot.conflicts.size() == 2);
  CHECK(look->snapshot.entries[0].address == "10.0.0.5:7701");
}

TEST_CASE("addresses without names are asked and what does not answer keeps its node") {
  DnsRig rig;
  rig.Place("nodes.test", {"10.0.0.2", "10.0.0.3", "10.0.0.4"});
  rig.behind.insert_or_assign("10.0.0.2:7701", std::string("west"));
  rig.behind.insert_or_assign("10.0.0.3:7701", std::string("north"));
  rig.behind.insert_or_assign(
      "10.0.0.4:7701", Status(Code::kUnauthenticated, reasons::kCertRejected, "of another CA"));
  DnsNodes nodes = rig.Nodes("nodes.test");
  auto look = nodes.LookAgain();
  REQUIRE_OK(look);
  CHECK(look->snapshot.entries ==
        std::vector<Entry>{{"north", "10.0.0.3:7701"}, {"west", "10.0.0.2:7701"}});
  CHECK(look->snapshot.refused == 1);
  rig.behind.insert_or_assign("10.0.0.2:7701",
                              Status(Code::kUnavailable, reasons::kPeerDown, "silent"));
  for (int i = 0; i < 3; ++i) look = nodes.LookAgain();
  REQUIRE_OK(look);
  CHECK(look->snapshot.entries.size() == 2);
}

TEST_CASE("one node with thousands of ports and addresses does not become millions") {
  DnsRig rig;
  std::vector<SrvRecord> services;
  for (uint16_t port = 1; port <= 1600; ++port) services.push_back({"west.test", port});
  rig.Serve(services);
  std::vector<std::string>& addresses = rig.answers.at(kListed).more.at("west.test");
  for (int i = 0; i < 2000; ++i) {
    addresses.push_back("10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250 + 1));
  }
  DnsNodes nodes = rig.Nodes(kListed);
  const auto look = nodes.LookAgain();
  REQUIRE_OK(look);
  CHECK(look->snapshot.entries.size() == 1);
  CHECK(look->snapshot.conflicts.size() <= 64);
  CHECK(look->snapshot.refused >= 1599);
}

TEST_CASE("a DNS server that answers each question slowly fails the look and holds it no longer") {
  constexpr size_t kTargets = 100;
  constexpr std::chrono::seconds kSlow{3};
  testing::DnsServer dns;
  std::vector<testing::DnsRecord> services;
  for (size_t i = 0; i < kTargets; ++i) {
    services.push_back(testing::SrvRecordOf(kListed, "n" + std::to_string(i) + ".test", 7701));
  }
  std::atomic<bool> slow = true;
  std::atomic<int> seconds = 0;  // that have passed
  dns.Lie([&](const testing::DnsBytes& query) {
    const bool list = query[12] == std::string_view("_onecopy").size();
    if (list) return testing::DnsMessage(query, services);
    if (slow) seconds += static_cast<int>(kSlow.count());
    const std::string target(query.begin() + 13, query.begin() + 13 + query[12]);
    return testing::DnsMessage(query, {testing::ARecord(target + ".test", "10.0.0.2", 30)});
  });
  const Resolver resolver(*os::ParseHostPort(dns.address()), [] { return false; });
  DnsNodes nodes(
      kListed, 7701,
      [&](const std::string& name, DnsType type) { return resolver.Ask(name, type); },
      [](const std::vector<os::HostPort>&) { return std::vector<Result<std::string>>(); },
      [&] { return DnsNodes::Clock::time_point(std::chrono::seconds(seconds)); });
  const Status failed = nodes.LookAgain().status();
  INFO(failed.ToString());
  CHECK(failed.code() == Code::kUnavailable);
  CHECK(failed.reason() == reasons::kIo);
  CHECK(failed.message() ==
        "DNS, _onecopy._tcp.test: looking up the addresses of all SRV targets has taken longer "
        "than 120 s");
  CHECK(std::chrono::seconds(seconds) >= kLookLimit);
  CHECK(std::chrono::seconds(seconds) < kTargets * kSlow);
  slow = false;
  const auto look = nodes.LookAgain();
  REQUIRE_OK(look);
  CHECK(look->snapshot.entries.size() == kTargets);
}

TEST_CASE("more nodes than there may be are counted and left out") {
  DnsRig rig;
  std::vector<SrvRecord> services;
  DnsAnswer answer;
  for (size_t i = 0; i < kMaxEntries + 100; ++i) {
    services.push_back({"n" + std::to_string(i) + ".test", 7701});
    answer.more[services.back().target] = {"10.0.0.2"};
  }
  answer.services = services;
  rig.answers[kListed] = answer;
  DnsNodes nodes = rig.Nodes(kListed);
  const auto look = nodes.LookAgain();
  REQUIRE_OK(look);
  CHECK(look->snapshot.entries.size() == kMaxEntries);
  CHECK(look->snapshot.refused == 100);
}

}  // namespace
}  // namespace onecopy::discovery
