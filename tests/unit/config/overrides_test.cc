#include "daemon/config/config.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/unit/config/schema.h"
#include "transport/core/base/name.h"
#include "transport/os/machine/machine.h"

using onecopy::Code;
using onecopy::config::Apply;
using onecopy::config::CheckSecurity;
using onecopy::config::Config;
using onecopy::config::Defaults;
using onecopy::config::Overrides;
using onecopy::config::Parse;
using onecopy::testing::TestSchema;
namespace reasons = onecopy::reasons;

namespace {

Config FromFile(const std::string& text) {
  auto config = Parse(text, "f.toml", TestSchema());
  REQUIRE_OK(config);
  return *config;
}

std::string Wrong(const Overrides& overrides, Config config = Defaults(TestSchema())) {
  const onecopy::Status status = Apply(overrides, config);
  REQUIRE_FALSE(status.ok());
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(status.reason() == reasons::kBadConfig);
  return status.message();
}

// The defaults for node "east", with these flags.
Config EastWith(const Overrides& overrides) {
  Config config = Defaults(TestSchema());
  config.name = "east";
  REQUIRE_OK(Apply(overrides, config));
  return config;
}

// Plain text at this address was refused.
void CheckInsecure(const onecopy::Status& status, const std::string& address) {
  REQUIRE_FALSE(status.ok());
  CHECK(status.message().find(address) == 0);
}

Overrides MetricsAt(const std::string& text) {
  Overrides overrides;
  overrides.metrics_listen = text;
  return overrides;
}

}  // namespace

TEST_CASE("flags come before the file, and what they leave out stays") {
  Config config = FromFile(R"(
name = "east"
listen = "127.0.0.1:1"
lanes = "127.0.0.1:2"
run_dir = "/run/a"
uid_domain = "lab"
[peers.west]
address = "10.0.0.2:7701"
uid_domain = "lab"
[peers.north]
address = "10.0.0.3:7701"
)");
  Overrides overrides;
  overrides.name = "ost";
  overrides.listen = "127.0.0.2:10";
  overrides.lanes = "127.0.0.2:20";
  overrides.run_dir = "/run/b";
  overrides.holder = "own";
  overrides.peers = {"west=[::1]:7001", "south=south.example:7002"};
  REQUIRE_OK(Apply(overrides, config));
  CHECK(config.name == "ost");
  CHECK(config.listen.ToString() == "127.0.0.2:10");
  CHECK(onecopy::os::ToString(config.LanesAddresses()) == "127.0.0.2:20");
  CHECK(config.run_dir == "/run/b");
  CHECK(config.holder == "own");
  CHECK(config.texts.at("restart.holder") == "\"own\"");
  CHECK(config.uid_domain == "lab");
  REQUIRE(config.peers.size() == 3);
  CHECK(onecopy::os::ToString(config.peers.at("west").addresses) == "[::1]:7001");
  CHECK(config.peers.at("west").uid_domain == "lab");
  CHECK(onecopy::os::ToString(config.peers.at("north").addresses) == "10.0.0.3:7701");
  CHECK(onecopy::os::ToString(config.peers.at("south").addresses) == "south.example:7002");
}

TEST_CASE("without flags the file's values stay") {
  const Config before = FromFile("name = \"east\"\nlisten = \"127.0.0.1:1\"\n");
  Config after = before;
  REQUIRE_OK(Apply({}, after));
  CHECK(after == before);
}

TEST_CASE("a node that nobody has named has the host's name") {
  Config config = Defaults(TestSchema());
  const onecopy::Status status = Apply({}, config);
  CHECK(status.ok() == onecopy::IsName(onecopy::os::HostName()));
  CHECK(config.name == onecopy::os::HostName());
}

TEST_CASE("the lanes listen beside the peers' port unless they are told otherwise") {
  Overrides overrides;
  overrides.listen = "127.0.0.9:65534";
  Config config = EastWith(overrides);
  CHECK(onecopy::os::ToString(config.LanesAddresses()) == "127.0.0.9:65535");
  overrides.listen = "127.0.0.9:0";
  REQUIRE_OK(Apply(overrides, config));
  CHECK(onecopy::os::ToString(config.LanesAddresses()) == "127.0.0.9:0");
  overrides.lanes = "127.0.0.9:0";
  REQUIRE_OK(Apply(overrides, config));
  overrides.listen = "127.0.0.9:80";
  overrides.lanes = "127.0.0.8:80";
  REQUIRE_OK(Apply(overrides, config));
}

TEST_CASE("a flag that is wrong is named, and all of them at once") {
  Overrides overrides;
  overrides.name = "no good";
  overrides.listen = "7701";
  overrides.lanes = "x";
  overrides.peers = {"west", "=a:1", "w/x=a:1", "south=a", "north=a:0", "a=a:1", "a=a:2"};
  const std::string wrong = Wrong(overrides);
  for (const char* part :
       {"--listen: \"7701\" is not an address", "--lanes: \"x\" is not an address",
        "--peer west: must be NAME=HOST:PORT", "--peer =a:1: must be", "--peer w/x=a:1: must be",
        "--peer south: \"a\" is not an address", "peers.north: port 0 cannot be connected to",
        "--peer a is given twice", "the name \"no good\" cannot be a node's"}) {
    INFO(wrong);
    CHECK(wrong.find(part) != std::string::npos);
  }
}

TEST_CASE("flags can make a sound file wrong") {
  const Config config = FromFile("name = \"east\"\n[peers.west]\naddress = \"a:1\"\n");
  Overrides overrides;
  overrides.name = "west";
  CHECK(Wrong(overrides, config) ==
        "peers.west has the name of this node: a node cannot be its own peer");
  overrides = {};
  overrides.listen = "127.0.0.1:65535";
  CHECK(Wrong(overrides, config).find("lanes must be set") == 0);
}

TEST_CASE("plain text beyond this machine has to be allowed") {
  const std::string listen = GENERATE("0.0.0.0:7701", "10.0.0.1:7701", "[::]:7701",
                                      "[2001:db8::1]:7701", "east.example:7701");
  INFO(listen);
  Overrides overrides;
  overrides.listen = listen;
  const Config config = EastWith(overrides);
  const onecopy::Status status = CheckSecurity(config);
  CheckInsecure(status, "listen is " + listen);
  CHECK(status.code() == Code::kFailedPrecondition);
  CHECK(status.reason() == reasons::kInsecure);
  CHECK(status.remedy().find("insecure = true") != std::string::npos);

  Config allowed = config;
  allowed.insecure = true;
  CHECK(CheckSecurity(allowed).ok());
  Config encrypted = config;
  encrypted.tls = {.ca = "ca", .certificate = "certificate", .key = "key", .crl = ""};
  CHECK(CheckSecurity(encrypted).ok());
}

TEST_CASE("on this machine plain text is no danger") {
  Config config = Defaults(TestSchema());
  config.listen.host = GENERATE("127.0.0.1", "127.1.2.3", "::1", "localhost");
  CHECK(CheckSecurity(config).ok());
}

TEST_CASE("peers beyond this machine hear plain text too") {
  Overrides overrides;
  overrides.peers = {"south=127.0.0.1:7702", "west=10.0.0.2:7701"};
  Config config = EastWith(overrides);
  CheckInsecure(CheckSecurity(config), "the address of peer west is 10.0.0.2:7701");
  config.insecure = true;
  CHECK(CheckSecurity(config).ok());
}

TEST_CASE("what differs counts at once or waits, and is told with both values") {
  const Config running = FromFile("[log]\nlevel = \"debug\"\n[peers.west]\naddress = \"a:1\"\n");
  const Config wanted = FromFile(
      "[tls]\nca = \"c\"\ncertificate = \"d\"\nkey = \"k\"\n[staging]\nslots = 8\n"
      "[tcp]\nlabel = \"x\"\n[peers.north]\naddress = \"b:2\"\nuid_domain = \"lab\"\n"
      "[exports.data]\npath = \"/data\"\nread = \"7@*\"\n[qos.a]\nusers = \"7\"\nweight = 2\n");
  const auto changes = onecopy::config::Compare(running, wanted);
  CHECK(changes.now == std::vector<std::string>{
                           "exports.data.follow: (not set) -> \"none\"",
                           "exports.data.mode: (not set) -> \"0640\"",
                           "exports.data.path: (not set) -> \"/data\"",
                           "exports.data.read: (not set) -> \"7@*\"",
                           "exports.data.write: (not set) -> \"\"",
                           "log.level: \"debug\" -> \"info\"",
                           "peers.north.address: (not set) -> \"b:2\"",
                           "peers.north.create_bytes: (not set) -> \"\"",
                           "peers.north.uid_domain: (not set) -> \"lab\"",
                           "peers.west.address: \"a:1\" -> (not set)",
                           "peers.west.create_bytes: \"\" -> (not set)",
                           "peers.west.uid_domain: \"\" -> (not set)",
                           "qos.a.nodes: (not set) -> \"\"",
                           "qos.a.priority: (not set) -> \"normal\"",
                           "qos.a.rate_limit: (not set) -> \"0B\"",
                           "qos.a.users: (not set) -> \"7\"",
                           "qos.a.weight: (not set) -> 2",
                       });
  CHECK(changes.at_restart == std::vector<std::string>{
                                  "staging.slots: 64 -> 8",
                                  "tcp.label: \"tab\\u0009here\" -> \"x\"",
                                  "tls.ca: \"\" -> \"c\"",
                                  "tls.certificate: \"\" -> \"d\"",
                                  "tls.key: \"\" -> \"k\"",
                              });
  const Config merged = onecopy::config::Merge(running, wanted);
  CHECK(merged.peers == wanted.peers);
  CHECK(merged.exports == wanted.exports);
  CHECK(merged.shares == wanted.shares);
  CHECK(merged.log_level == "info");
  CHECK(merged.slots == 64);
  CHECK_FALSE(merged.tls.enabled());
  CHECK(onecopy::config::Compare(merged, wanted).now.empty());
  CHECK(onecopy::config::Compare(merged, wanted).at_restart == changes.at_restart);
}

TEST_CASE("lanes beyond this machine are plain text too") {
  Config config = Defaults(TestSchema());
  config.lanes = {{"127.0.0.1", 7702}, {"10.0.0.1", 7702}};
  CheckInsecure(CheckSecurity(config), "lanes is 10.0.0.1:7702");
}

TEST_CASE("metrics are served on loopback, elsewhere on loopback, or not at all") {
  CHECK(Defaults(TestSchema()).metrics_listen->ToString() == "127.0.0.1:9464");
  CHECK_FALSE(FromFile("metrics_listen = \"off\"").metrics_listen);
  Config config = FromFile("metrics_listen = \"localhost:1\"");
  CHECK(config.metrics_listen->ToString() == "localhost:1");
  REQUIRE_OK(Apply(MetricsAt("off"), config));
  CHECK_FALSE(config.metrics_listen);
  REQUIRE_OK(Apply(MetricsAt("[::1]:9464"), config));
  REQUIRE_OK(Apply(MetricsAt("127.0.0.2:0"), config));
  CHECK(config.metrics_listen->ToString() == "127.0.0.2:0");
  CHECK(config.texts.at("metrics_listen") == "\"127.0.0.2:0\"");
  for (const char* wrong : {"", "on", "0.0.0.0:9464", "10.0.0.1:1", "[::]:9464", "127.0.0.1",
                            "127.0.0.1:7701", "127.0.0.1:7702"}) {
    CAPTURE(wrong);
    CHECK(Wrong(MetricsAt(wrong)).find("metrics") != std::string::npos);
  }
}
