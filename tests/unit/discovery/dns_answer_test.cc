#include "daemon/discovery/dns_answer.h"

#include <random>

#include "tests/support/catch.h"
#include "tests/support/dns_server.h"

namespace onecopy::discovery {
namespace {

using namespace onecopy::testing;

constexpr char kService[] = "_onecopy._tcp.cluster.test";
constexpr char kName[] = "nodes.cluster.test";

TEST_CASE("services come with the addresses of their targets and the least TTL") {
  const DnsBytes message = DnsMessage(
      DnsQuery(kService, kDnsSrv),
      {SrvRecordOf(kService, "West.cluster.test", 7701, 30),
       SrvRecordOf("_OneCopy._tcp.cluster.test", "north.cluster.test", 7702, 20)},
      {ARecord("west.cluster.test", "10.0.0.2", 10), ARecord("other.test", "10.0.0.9", 1)});
  const auto answer = ParseDnsAnswer(message, kService, DnsType::kSrv);
  REQUIRE_OK(answer);
  REQUIRE(answer->services.size() == 2);
  CHECK(answer->services[0] == SrvRecord{"north.cluster.test", 7702});
  CHECK(answer->services[1] == SrvRecord{"west.cluster.test", 7701});
  CHECK(answer->more.at("west.cluster.test") == std::vector<std::string>{"10.0.0.2"});
  CHECK(answer->more.at("north.cluster.test").empty());
  CHECK_FALSE(answer->more.contains("other.test"));
  CHECK(answer->ttl_seconds == 10);
  CHECK(answer->refused == 0);
}

TEST_CASE("records of another name do not count but those of an alias do") {
  DnsRecord alias{kName, kDnsCname, 5, DnsName("real.test")};
  const DnsBytes message = DnsMessage(
      DnsQuery(kName, kDnsA),
      {alias, ARecord("real.test", "10.0.0.2", 30), ARecord("liar.test", "10.0.0.3", 30)});
  const auto answer = ParseDnsAnswer(message, kName, DnsType::kA);
  REQUIRE_OK(answer);
  CHECK(answer->addresses == std::vector<std::string>{"10.0.0.2"});
  CHECK(answer->refused == 1);
  CHECK(answer->ttl_seconds == 5);
}

TEST_CASE("aliases that point in circles end") {
  const DnsRecord one{kName, kDnsCname, 5, DnsName("other.test")};
  const DnsRecord other{"other.test", kDnsCname, 5, DnsName(kName)};
  const auto answer =
      ParseDnsAnswer(DnsMessage(DnsQuery(kName, kDnsA), {one, other}), kName, DnsType::kA);
  REQUIRE_OK(answer);
  CHECK(answer->addresses.empty());
}

TEST_CASE("a compressed name that points at itself is no answer") {
  DnsRecord circle = SrvRecordOf(kService, "x.test", 7701);
  DnsBytes message = DnsMessage(DnsQuery(kService, kDnsSrv), {circle});
  // The target's name, at the end, points at itself.
  const size_t target = message.size() - DnsName("x.test").size();
  message[target] = static_cast<unsigned char>(0xc0 | target >> 8);
  message[target + 1] = static_cast<unsigned char>(target & 0xff);
  const auto answer = ParseDnsAnswer(message, kService, DnsType::kSrv);
  if (answer.ok()) {
    CHECK(answer->services.empty());
    CHECK(answer->refused == 1);
  }
}

TEST_CASE("services without a target or a port and addresses of a wrong length are refused") {
  DnsRecord short_one = SrvRecordOf(kService, "x.test", 7701);
  short_one.data.resize(6);
  const DnsBytes message = DnsMessage(
      DnsQuery(kService, kDnsSrv),
      {SrvRecordOf(kService, "", 7701), SrvRecordOf(kService, "west.test", 0), short_one});
  const auto answer = ParseDnsAnswer(message, kService, DnsType::kSrv);
  REQUIRE_OK(answer);
  CHECK(answer->services.empty());
  CHECK(answer->refused == 3);
  DnsRecord bad = ARecord(kName, "10.0.0.2");
  bad.data.push_back(1);
  const auto addresses =
      ParseDnsAnswer(DnsMessage(DnsQuery(kName, kDnsA), {bad}), kName, DnsType::kA);
  REQUIRE_OK(addresses);
  CHECK(addresses->refused == 1);
}

TEST_CASE("an answer that is cut off anywhere or changed anywhere harms nothing") {
  const DnsBytes message = DnsMessage(DnsQuery(kService, kDnsSrv),
                                      {SrvRecordOf(kService, "west.cluster.test", 7701),
                                       SrvRecordOf(kService, "north.cluster.test", 7702)},
                                      {ARecord("west.cluster.test", "10.0.0.2")});
  for (size_t length = 0; length < message.size(); ++length) {
    const auto answer = ParseDnsAnswer(std::span(message).first(length), kService, DnsType::kSrv);
    if (answer.ok()) CHECK(answer->services.size() <= 2);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    DnsBytes changed = message;
    for (int j = 0; j < 4; ++j) changed[random() % changed.size()] = random() & 0xff;
    const auto answer = ParseDnsAnswer(changed, kService, DnsType::kSrv);
    if (answer.ok()) CHECK(answer->services.size() <= kMaxRecords);
  }
}

}  // namespace
}  // namespace onecopy::discovery
