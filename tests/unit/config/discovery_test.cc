// What [discovery] may say.
#include "daemon/config/config.h"
#include "tests/support/catch.h"
#include "tests/unit/config/schema.h"

using onecopy::config::Parse;
using onecopy::testing::TestSchema;
namespace config = onecopy::config;

namespace {

std::string Problem(const std::string& text) {
  const auto parsed = Parse(text, "f.toml", TestSchema());
  return parsed.ok() ? std::string() : parsed.status().message();
}

}  // namespace

TEST_CASE("by default nothing is discovered") {
  const auto parsed = Parse("", "f.toml", TestSchema());
  REQUIRE_OK(parsed);
  CHECK(parsed->discovery.kind == config::DiscoveryKind::kStatic);
}

TEST_CASE("etcd is read with all that belongs to it") {
  const auto parsed = Parse(
      "listen = \"0.0.0.0:7701\"\ninsecure = true\n[discovery]\nkind = \"etcd\"\n"
      "advertise = \"10.0.0.1:7701\"\n"
      "etcd_endpoints = [\"https://10.0.0.8:2379\", \"https://[fd00::8]:2379\"]\n"
      "etcd_prefix = \"/lab\"\netcd_lease = \"5s\"\netcd_ca = \"ca\"\netcd_certificate = \"c\"\n"
      "etcd_key = \"k\"\netcd_user = \"u\"\netcd_password_file = \"p\"\n",
      "f.toml", TestSchema());
  REQUIRE_OK(parsed);
  const config::Discovery& discovery = parsed->discovery;
  CHECK(discovery.kind == config::DiscoveryKind::kEtcd);
  REQUIRE(discovery.etcd_endpoints.size() == 2);
  CHECK(discovery.etcd_endpoints[1].tls);
  CHECK(discovery.etcd_endpoints[1].where.host == "fd00::8");
  CHECK(discovery.etcd_prefix == "/lab/");
  CHECK(discovery.etcd_lease == std::chrono::seconds(5));
  CHECK(discovery.advertise->ToString() == "10.0.0.1:7701");
}

TEST_CASE("what is wrong in the section of discovery is named with its line and what to do") {
  const std::string etcd = "[discovery]\nkind = \"etcd\"\n";
  const std::string dns = "[discovery]\nkind = \"dns\"\n";
  const std::string plain = "etcd_endpoints = [\"http://127.0.0.1:2379\"]\n";
  const auto [text, message] = GENERATE_COPY(table<std::string, std::string>({
      {"[discovery]\nkind = \"consul\"", "f.toml:2: discovery.kind: must be one of static, dns"},
      {"[discovery]\ndns_name = \"_a._tcp.b\"",
       "f.toml:2: discovery.dns_name: has no effect with kind = \"static\""},
      {"[discovery]\nadvertise = \"10.0.0.1:7701\"",
       "f.toml:2: discovery.advertise: has no effect with kind = \"static\""},
      {etcd, "f.toml:2: discovery.etcd_endpoints: must name 1 to 16 servers"},
      {etcd + "etcd_endpoints = [\"10.0.0.1:2379\"]",
       "f.toml:3: discovery.etcd_endpoints: \"10.0.0.1:2379\" is not a server of etcd"},
      {etcd + "etcd_endpoints = [\"https://10.0.0.1:2379/x\"]", "is not a server of etcd"},
      {etcd + "etcd_endpoints = [\"https://10.0.0.1:2379\"]",
       "f.toml:2: discovery.etcd_ca: must be set with https"},
      {etcd + "etcd_endpoints = [\"http://10.0.0.1:2379\"]",
       "f.toml:3: discovery.etcd_endpoints: http sends everything in plain text"},
      {etcd + "etcd_ca = \"x\"\netcd_endpoints = [\"http://127.0.0.1:1\", \"https://127.0.0.1:2\"]",
       "must be all https or all http"},
      {etcd + plain + "etcd_ca = \"x\"",
       "f.toml:4: discovery.etcd_ca: has no effect without https"},
      {etcd + plain + "etcd_user = \"x\"",
       "f.toml:4: discovery.etcd_user: needs etcd_password_file"},
      {etcd + plain + "etcd_key = \"x\"", "f.toml:4: discovery.etcd_key: needs etcd_certificate"},
      {etcd + plain + "etcd_lease = \"1s\"", "f.toml:4: discovery.etcd_lease: must be between"},
      {etcd + plain + "dns_name = \"a.b\"",
       "f.toml:4: discovery.dns_name: has no effect with kind = \"etcd\""},
      {etcd + plain + "advertise = \"0.0.0.0:7701\"",
       "f.toml:4: discovery.advertise: must be an address that other nodes can connect to"},
      {"listen = \"0.0.0.0:7701\"\n" + etcd + plain,
       "f.toml:3: discovery.advertise: must be set, because other nodes cannot connect to 0.0.0.0"},
      {dns, "f.toml:2: discovery.dns_name: must be set with kind = \"dns\""},
      {dns + "dns_name = \"_a..b\"", "f.toml:3: discovery.dns_name: \"_a..b\" is not a DNS name"},
      {dns + "dns_name = \"nodes.test\"",
       "f.toml:3: discovery.dns_name: \"nodes.test\" has addresses but no nodes' names"},
      {dns + "dns_name = \"_a._tcp.b\"\ndns_server = \"ns.test:53\"",
       "f.toml:4: discovery.dns_server: must be an IPv4 address and a port"},
      {dns + "dns_name = \"_a._tcp.b\"\netcd_user = \"x\"",
       "f.toml:4: discovery.etcd_user: has no effect with kind = \"dns\""},
  }));
  INFO(text);
  INFO(Problem(text));
  CHECK(Problem(text).find(message) != std::string::npos);
}

TEST_CASE("a change of discovery takes effect at the next start") {
  const auto before = Parse("", "f.toml", TestSchema());
  const auto after = Parse("[discovery]\nkind = \"dns\"\ndns_name = \"_a._tcp.b\"\n[peers.\"*\"]\n",
                           "f.toml", TestSchema());
  REQUIRE_OK(before);
  REQUIRE_OK(after);
  const config::Changes changes = config::Compare(*before, *after);
  CHECK(changes.at_restart.size() == 2);
  const config::Config merged = config::Merge(*before, *after);
  CHECK(merged.discovery == before->discovery);
  CHECK(merged.peers.size() == 1);
}
