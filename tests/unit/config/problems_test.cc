// What is wrong in a file is said with its line, all of it at once.
#include <algorithm>

#include "daemon/config/config.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/unit/config/schema.h"

using onecopy::config::Parse;
using onecopy::testing::TestSchema;
namespace reasons = onecopy::reasons;

namespace {

// The message about a file that must be wrong.
std::string Wrong(const std::string& text) {
  const auto config = Parse(text, "f.toml", TestSchema());
  REQUIRE_FALSE(config.ok());
  CHECK(config.status().code() == onecopy::Code::kInvalidArgument);
  CHECK(config.status().reason() == reasons::kBadConfig);
  CHECK_FALSE(config.status().remedy().empty());
  return config.status().message();
}

}  // namespace

TEST_CASE("a key or value that is wrong is named with its line") {
  const auto [text, message] = GENERATE(table<const char*, const char*>({
      // keys and sections that there are not
      {"nam = \"x\"", "f.toml:1: there is no key nam (did you mean name?)"},
      {"\n\nxyzzy = 1", "f.toml:3: there is no key xyzzy"},
      {"[stagin]\nslots = 4", "f.toml:1: there is no section stagin (did you mean staging?)"},
      {"[staging]\nslot = 4", "f.toml:2: there is no key staging.slot (did you mean slots?)"},
      {"[staging.slots]\nx = 1", "f.toml:1: staging.slots: must be a whole number, not a section"},
      {"[staging.extra]\nx = 1", "f.toml:1: there is no section staging.extra"},
      {"[tcp]\nLanes = 1", "f.toml:2: there is no key tcp.Lanes (did you mean lanes?)"},
      {"[host]\nx = 1", "f.toml:2: there is no key host.x"},
      {"[libraries]\ncudart = \"x\"",
       "f.toml:2: there is no key libraries.cudart (did you mean cuda?)"},
      {"staging = 4",
       "f.toml:1: staging must be a section, written as [staging], not a whole number"},
      {"[[log]]\nlevel = \"info\"",
       "f.toml:1: log must be a section, written as [log], not a list"},
      {"[name]", "f.toml:1: name: must be text in quotes, not a section"},
      // types
      {"name = 7", "f.toml:1: name: must be text in quotes, not a whole number"},
      {"insecure = \"yes\"", "f.toml:1: insecure: must be true or false, not text"},
      {"[staging]\nslots = \"64\"", "f.toml:2: staging.slots: must be a whole number, not text"},
      {"[staging]\nslots = 64.0",
       "f.toml:2: staging.slots: must be a whole number, not a number with a fraction"},
      {"[staging]\nslots = true",
       "f.toml:2: staging.slots: must be a whole number, not true or false"},
      {"[staging]\nslots = 1979-05-27",
       "f.toml:2: staging.slots: must be a whole number, not a date or time"},
      {"[peering]\nheartbeat = 3",
       "f.toml:2: peering.heartbeat: must be a duration, such as \"30s\", not a whole number"},
      {"[staging]\nslot_bytes = true",
       "f.toml:2: staging.slot_bytes: must be a size, such as \"64KiB\", not true or false"},
      {"[tcp]\ninterfaces = \"eth0\"",
       "f.toml:2: tcp.interfaces: must be a list of texts, such as [\"a\", \"b\"], not text"},
      {"[tcp]\ninterfaces = [\"eth0\", 1]",
       "f.toml:2: tcp.interfaces: must hold texts in quotes only, not a whole number"},
      // bounds
      {"[staging]\nslots = 3", "f.toml:2: staging.slots: must be between 4 and 65536, not 3"},
      {"[probes]\nshare_permille = 11",
       "f.toml:2: probes.share_permille: must be between 1 and 10, not 11"},
      {"[probes]\nbytes = \"65MiB\"",
       "f.toml:2: probes.bytes: must be between 64KiB and 64MiB, not \"65MiB\""},
      {"[probes]\njitter_percent = 51",
       "f.toml:2: probes.jitter_percent: must be between 0 and 50, not 51"},
      {"[staging]\nslots = -1", "f.toml:2: staging.slots: must be between 4 and 65536, not -1"},
      {"[staging]\nslots = 65537",
       "f.toml:2: staging.slots: must be between 4 and 65536, not 65537"},
      {"[staging]\nslot_bytes = \"1KiB\"",
       "f.toml:2: staging.slot_bytes: must be between 4KiB and 64MiB, not \"1KiB\""},
      {"[staging]\nslot_bytes = 67108865",
       "f.toml:2: staging.slot_bytes: must be between 4KiB and 64MiB, not \"67108865B\""},
      {"[staging]\nslot_bytes = \"15EiB\"",
       "f.toml:2: staging.slot_bytes: must be between 4KiB and 64MiB, not \"15EiB\""},
      {"[staging]\nslot_bytes = -4096",
       "f.toml:2: staging.slot_bytes: must be between 4KiB and 64MiB, not -4096"},
      {"[tcp]\nbuffer = -1", "f.toml:2: tcp.buffer: must be at least 0B, not -1"},
      {"[tcp]\nlinger = \"61s\"", "f.toml:2: tcp.linger: must be between 0s and 1m, not \"61s\""},
      {"[transfers]\nkeep = 9223372036854775807",
       "f.toml:2: transfers.keep: must be between 0 and 1000000, not 9223372036854775807"},
      {"[limits]\nbuffers = 0",
       "f.toml:2: limits.buffers: must be between 1 and 1000000000, not 0"},
      {"[limits]\nrequest_memory = \"2d\"", "f.toml:2: limits.request_memory: "},
      {"[limits]\nreserved_percent = 91",
       "f.toml:2: limits.reserved_percent: must be between 0 and 90, not 91"},
      // values
      {"name = \"a b\"", "f.toml:1: name: must be of the form [A-Za-z0-9][A-Za-z0-9._-]{0,62}"},
      {"uid_domain = \"-\"", "f.toml:1: uid_domain: must be of the form"},
      {"listen = \"7701\"", "f.toml:1: listen: \"7701\" is not an address; write HOST:PORT"},
      {"listen = \"\"", "f.toml:1: listen: \"\" is not an address"},
      {"lanes = \"::1:80\"", "f.toml:1: lanes: \"::1:80\" is not an address"},
      {"lanes = \"10.0.0.1:2,\"", "f.toml:1: lanes: \"\" is not an address"},
      {"lanes = \"10.0.0.1:2, 10.0.0.1:2\"", "f.toml:1: lanes: 10.0.0.1:2 is given twice"},
      {"lanes = \"10.0.0.1:2,0.0.0.0:2\"",
       "f.toml:1: lanes: 0.0.0.0 means any address of this machine, so it must be the only one"},
      {"lanes = \"a:1,a:2,a:3,a:4,a:5,a:6,a:7,a:8,a:9\"",
       "f.toml:1: lanes has 9 addresses, more than 8"},
      {"listen = \"a:1\"\nlanes = \"a:2,a:1\"",
       "f.toml:2: lanes and listen must differ: both are a:1"},
      {"[staging]\nslot_bytes = \"1mb\"",
       "f.toml:2: staging.slot_bytes: \"1mb\" is not a size: unknown unit \"mb\""},
      {"[peering]\nheartbeat = \"3\"",
       "f.toml:2: peering.heartbeat: \"3\" is not a duration: it has no unit; write a whole"},
      {"[log]\nlevel = \"warn\"",
       "f.toml:2: log.level: must be one of debug, info, warning, error, not warn"},
      {"[log]\nformat = \"journald\"",
       "f.toml:2: log.format: must be one of auto, text, journal, not journald (did you mean "
       "journal?)"},
      {"[audit]\nlevel = \"deny\"",
       "f.toml:2: audit.level: must be one of off, denied, rights, all, not deny"},
      // peers
      {"peers = 1", "f.toml:1: peers must be a section, written as [peers.NAME]"},
      {"[peers]\nwest = \"10.0.0.2:7701\"",
       "f.toml:2: peers.west must be a section, written as [peers.west], not text"},
      {"[peers.\"gpu-*\"]\naddress = \"a:1\"",
       "f.toml:1: peers.gpu-* is a pattern, and a pattern has no address"},
      {"[peers.\"-*\"]", "f.toml:1: peers.-*: a node's name must be of the form"},
      {"[peers.west]\naddress = \"10.0.0.2\"",
       "f.toml:2: peers.west.address: \"10.0.0.2\" is not an address"},
      {"[peers.west]\naddress = \"10.0.0.2:0\"",
       "f.toml:1: peers.west: port 0 cannot be connected to"},
      {"[peers.west]\naddress = \"10.0.0.2:1,west.example:1\"",
       "f.toml:1: peers.west: of several addresses each must be an IP address, not west.example"},
      {"[peers.west]\naddress = \"10.0.0.2:1,[fd00::2]:1\"",
       "f.toml:1: peers.west: all addresses must be of IPv4, or all of IPv6"},
      {"[peers.west]\naddress = \"a:1\"\ncreate_bytes = \"much\"",
       "f.toml:3: peers.west.create_bytes: "},
      {"[peers.west]\naddress = \"a:1\"\nuid_domain = \"a b\"",
       "f.toml:3: peers.west.uid_domain: must be of the form"},
      {"[peers.west]\naddress = \"a:1\"\nport = 1", "f.toml:3: there is no key peers.west.port"},
      {"[peers.\"a b\"]\naddress = \"a:1\"",
       "f.toml:1: peers.a b: a node's name must be of the form"},
      {"name = \"east\"\n[peers.east]\naddress = \"a:1\"",
       "f.toml:2: peers.east has the name of this node"},
      // exports
      {"exports = \"/data\"", "f.toml:1: exports must be a section, written as [exports.NAME]"},
      {"[exports]\ndata = \"/data\"",
       "f.toml:2: exports.data must be a section, written as [exports.data], not text"},
      {"[exports.data]\nread = \"1@west\"", "f.toml:1: exports.data: path must be set"},
      {"[exports.data]\npath = \"data\"",
       "f.toml:2: exports.data.path: must be an absolute path without . or .."},
      {"[exports.data]\npath = \"/a/../b\"", "f.toml:2: exports.data.path: must be"},
      {"[exports.data]\npath = \"/a//b\"", "f.toml:2: exports.data.path: must be"},
      {"[exports.data]\npath = \"/a/\"", "f.toml:2: exports.data.path: must be"},
      {"[exports.data]\npath = \"/a\"\nread = \"alice@west\"",
       "f.toml:3: exports.data.read: \"alice@west\" is not a user: write UID@NODE"},
      {"[exports.data]\npath = \"/a\"\nread = \"1@west 2@\"",
       "f.toml:3: exports.data.read: \"2@\" is not a user"},
      {"[exports.data]\npath = \"/a\"\nread = \"4294967295@west\"",
       "f.toml:3: exports.data.read: \"4294967295@west\" is not a user"},
      {"[exports.data]\npath = \"/a\"\nwrite = \"1@west 2@\"",
       "f.toml:3: exports.data.write: \"2@\" is not a user"},
      {"[exports.data]\npath = \"/a\"\nmode = \"640x\"",
       "f.toml:3: exports.data.mode: must be an octal mode"},
      {"[exports.data]\npath = \"/a\"\nmode = \"04755\"",
       "f.toml:3: exports.data.mode: must be an octal mode"},
      {"[exports.data]\npath = \"/a\"\nmode = \"0440\"",
       "f.toml:3: exports.data.mode: must be an octal mode"},
      {"[exports.data]\npath = \"/a\"\nmode = \"\"",
       "f.toml:3: exports.data.mode: must be an octal mode"},
      {"[exports.data]\npath = \"/a\"\nfollow = \"always\"",
       "f.toml:3: exports.data.follow: must be \"none\" or \"beneath\""},
      {"[exports.data]\npath = \"/a\"\nappend = \"1@west\"",
       "f.toml:3: there is no key exports.data.append"},
      {"[exports.\"a b\"]\npath = \"/a\"", "f.toml:1: exports.a b: a name must be of the form"},
      // shares
      {"qos = 3", "f.toml:1: qos must be a section, written as [qos.NAME]"},
      {"[qos]\nweight = 3", "f.toml:2: qos.weight must be a section, written as [qos.weight]"},
      {"[qos.a]\nweight = 3", "f.toml:1: qos.a: users or nodes must be set"},
      {"[qos.a]\nusers = \"7\"", "f.toml:1: qos.a: weight, rate_limit or priority must be set"},
      {"[qos.a]\nusers = \"\"\nweight = 3", "f.toml:1: qos.a: users or nodes must be set"},
      {"[qos.a]\nusers = \"7\"\nweight = 0", "f.toml:3: qos.a.weight"},
      {"[qos.a]\nusers = \"7\"\nweight = 101", "f.toml:3: qos.a.weight"},
      {"[qos.a]\nusers = \"7\"\nweight = \"3\"", "f.toml:3: qos.a.weight"},
      {"[qos.a]\nusers = \"alice\"\nweight = 1", "f.toml:2: qos.a.users: \"alice\" is not a user"},
      {"[qos.a]\nnodes = \"a/b\"\nweight = 1", "f.toml:2: qos.a.nodes: \"a/b\" is not a node"},
      {"[qos.a]\nusers = \"7\"\nrate_limit = 1",
       "f.toml:3: qos.a.rate_limit: must be at least 1 MiB, or 0 for no limit, not 1 B"},
      {"[qos.a]\nusers = \"7\"\nrate_limit = \"5\"", "f.toml:3: qos.a.rate_limit"},
      {"[qos.a]\nusers = \"7\"\npriority = \"urgent\"",
       "f.toml:3: qos.a.priority: must be one of low, normal, high, not urgent"},
      {"[qos.a]\nusers = \"7\"\nweight = 1\nlimit = 1", "f.toml:4: there is no key qos.a.limit"},
      {"[qos.\"a b\"]\nusers = \"7\"\nweight = 1", "f.toml:1: qos.a b: a name must be of the form"},
      // between values
      {"[tls]\nca = \"a\"",
       "f.toml:2: tls: certificate and key must be set too: set all three files, or none"},
      {"[tls]\nca = \"a\"\nkey = \"b\"", "f.toml:3: tls: certificate must be set too"},
      {"listen = \"127.0.0.1:65535\"", "f.toml:1: lanes must be set"},
      {"[restart]\nholder = \"run/holder.sock\"",
       "f.toml:2: restart.holder must be \"off\", \"own\" or an absolute path, not "
       "\"run/holder.sock\""},
      {"[restart]\nholder = \"\"", "f.toml:2: restart.holder must be"},
      {"api_listen = \"0.0.0.0:7703\"", "f.toml:1: api_listen needs [tls] ca, certificate and key"},
      {"api_listen = \"7703\"", "f.toml:1: api_listen: \"7703\" is not an address"},
      {"api_listen = \"127.0.0.1:80\"\nlisten = \"127.0.0.1:80\"\n[tls]\nca = \"a\"\n"
       "certificate = \"b\"\nkey = \"c\"",
       "f.toml:1: api_listen and listen must differ: both are 127.0.0.1:80"},
      {"api_listen = \"127.0.0.1:81\"\nlisten = \"127.0.0.1:80\"\n[tls]\nca = \"a\"\n"
       "certificate = \"b\"\nkey = \"c\"",
       "f.toml:1: api_listen and lanes must differ: both are 127.0.0.1:81"},
      {"listen = \"127.0.0.1:80\"\nlanes = \"127.0.0.1:80\"",
       "f.toml:2: lanes and listen must differ: both are 127.0.0.1:80"},
      {"[peering]\nreconnect_delay_max = \"50ms\"",
       "f.toml:2: peering: reconnect_delay_min, 100ms, is longer than reconnect_delay_max, 50ms"},
      {"[limits]\ngrants_per_user = 70000",
       "f.toml:2: limits: grants_per_user, 70000, exceeds grants, 65536, the limit of all"},
      {"[limits]\nsessions_per_user = 10\nsessions = 9",
       "f.toml:3: limits: sessions_per_user, 10, exceeds sessions, 9"},
      // what is no TOML
      {"name = \"a\"\nname = \"b\"", "f.toml:2: "},
      {"name = ", "f.toml:1: "},
      {"[staging\n", "f.toml:1: "},
      {"name = \"\xff\"", "f.toml:1: "},
      // another version
      {"\nversion = 2\nfoo = 1", "f.toml:2: version must be 1"},
      {"version = \"1\"", "f.toml:1: version must be 1"},
  }));
  INFO(text);
  const std::string wrong = Wrong(text);
  INFO(wrong);
  CHECK(wrong.starts_with(message));
  CHECK(wrong.find('\n') == std::string::npos);
}

TEST_CASE("everything that is wrong is said at once, in the file's order") {
  const std::string wrong = Wrong(R"(nme = "x"
insecure = 1
[tcp]
lanes = 0
[peers."-"]
[peers.a]
address = 5
[staging]
slots = 1
slot_bytes = 1
)");
  std::vector<std::string> starts;
  size_t from = 0;
  while (from < wrong.size()) {
    const size_t end = std::min(wrong.find('\n', from), wrong.size());
    starts.push_back(wrong.substr(from, wrong.find(' ', from) - from));
    from = end + 1;
  }
  CHECK(starts == std::vector<std::string>{"f.toml:1:", "f.toml:2:", "f.toml:4:", "f.toml:5:",
                                           "f.toml:7:", "f.toml:9:", "f.toml:10:"});
}

TEST_CASE("a file of another version is not judged by the rules of this one") {
  const std::string wrong = Wrong("version = 2\nnme = 1\n[unknown]\n");
  CHECK(wrong.find('\n') == std::string::npos);
}
