#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "daemon/config/config.h"
#include "daemon/config/sections.h"
#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/unit/config/schema.h"

using onecopy::Code;
using onecopy::config::AuditLevels;
using onecopy::config::Config;
using onecopy::config::Defaults;
using onecopy::config::Limit;
using onecopy::config::Load;
using onecopy::config::LogFormat;
using onecopy::config::Parse;
using onecopy::testing::TestSchema;
namespace reasons = onecopy::reasons;
using std::chrono::milliseconds;

namespace {

// A folder of the test's own, gone with it.
class Folder {
 public:
  Folder() { REQUIRE(::mkdtemp(path_.data()) != nullptr); }
  ~Folder() {
    for (const std::string& file : files_) ::unlink(file.c_str());
    ::rmdir(path_.c_str());
  }
  std::string Write(const std::string& name, const std::string& text) {
    files_.push_back(path_ + "/" + name);
    std::ofstream(files_.back()) << text;
    return files_.back();
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/onecopy-config-XXXXXX";
  std::vector<std::string> files_;
};

}  // namespace

TEST_CASE("lanes and peers may have several addresses") {
  const auto parsed = Parse(R"(
listen = "0.0.0.0:7701"
lanes = "10.0.1.1:7702, [fd00::1]:7703"
[peers.gpu-02]
address = "10.0.1.2:7701,10.0.2.2:7701"
)",
                            "f", TestSchema());
  REQUIRE_OK(parsed);
  CHECK(onecopy::os::ToString(parsed->LanesAddresses()) == "10.0.1.1:7702,[fd00::1]:7703");
  CHECK(onecopy::os::ToString(parsed->peers.at("gpu-02").addresses) ==
        "10.0.1.2:7701,10.0.2.2:7701");
}

TEST_CASE("an empty file gives the documented defaults") {
  const auto parsed = Parse("", "f", TestSchema());
  REQUIRE_OK(parsed);
  const Config& config = *parsed;
  CHECK(config.name.empty());
  CHECK(config.listen.ToString() == "127.0.0.1:7701");
  CHECK(config.lanes.empty());
  CHECK(onecopy::os::ToString(config.LanesAddresses()) == "127.0.0.1:7702");
  CHECK(config.run_dir.empty());
  CHECK(config.uid_domain.empty());
  CHECK_FALSE(config.insecure);
  CHECK_FALSE(config.tls.enabled());
  CHECK(config.peers.empty());
  CHECK(config.log_level == "info");
  CHECK(config.log_format == LogFormat::kAuto);
  CHECK(config.slot_bytes == 2 << 20);
  CHECK(config.slots == 64);
  CHECK(config.probe_bytes == 16 << 20);
  CHECK(config.probe_share_permille == 10);
  CHECK(config.probe_jitter_percent == 25);
  CHECK(config.probe_wait == milliseconds(2000));
  CHECK(config.probe_limit == milliseconds(10'000));
  CHECK(config.probe_lifetime == milliseconds(600'000));
  CHECK(config.probe_retry == milliseconds(5000));
  CHECK(config.stall_timeout == milliseconds(30'000));
  CHECK(config.holder == "off");
  CHECK(config.hold_for == milliseconds(300'000));
  CHECK(config.resume_for == milliseconds(600'000));
  CHECK(config.drain_timeout == milliseconds(30'000));
  CHECK(config.keep_transfers == 1000);
  CHECK_FALSE(config.reflection);
  CHECK(AuditLevels()[config.audit_level] == "rights");
  CHECK(config.audit_most_per_minute == 120);
  CHECK(config.audit_file.empty());
  CHECK(config.limits.memory == Limit{uint64_t{256} << 20, uint64_t{1} << 30});
  CHECK(config.limits.sessions == Limit{1024, 4096});
  CHECK(config.limits.namespaces == Limit{64, 256});
  CHECK(config.limits.connections == Limit{1024, 4096});
  CHECK(config.limits.descriptors == Limit{1024, 8192});
  CHECK(config.limits.requests == Limit{8192, 32'768});
  CHECK(config.limits.buffers == Limit{8192, 65'536});
  CHECK(config.limits.grants == Limit{8192, 65'536});
  CHECK(config.limits.transfers == Limit{16'384, 65'536});
  CHECK(config.limits.rings == Limit{256, 1024});
  CHECK(config.limits.routes == Limit{4096, 32'768});
  CHECK(config.limits.openings == Limit{4096, 65'536});
  CHECK(config.limits.files == Limit{512, 4096});
  CHECK(config.limits.arrivals == Limit{4096, 65'536});
  CHECK(config.limits.arrivals_per_buffer == 1024);
  CHECK(config.limits.watches == Limit{1024, 8192});
  CHECK(config.limits.mappings == Limit{1024, 4096});
  CHECK(config.limits.request_ids == Limit{2'097'152, 8'388'608});
  CHECK(config.limits.request_memory == milliseconds(600'000));
  CHECK(config.limits.health_watches == 256);
  CHECK(config.limits.reserved_percent == 5);
  CHECK(config.heartbeat == milliseconds(5000));
  CHECK(config.reconnect_delay_min == milliseconds(100));
  CHECK(config.reconnect_delay_max == milliseconds(10'000));
  CHECK(config.libraries == std::map<std::string, std::string>{{"cuda", ""}, {"ibverbs", ""}});
  CHECK(config.backends.size() == 2);
  CHECK(config.backends.at("tcp").Integer("lanes") == 8);
  CHECK(config == Defaults(TestSchema()));
}

TEST_CASE("every key of a file arrives") {
  const auto parsed = Parse(R"(
version = 1
name = "east"
listen = "[::1]:9000"
lanes = "10.0.0.1:9100"
run_dir = "/tmp/east"
uid_domain = "lab"
insecure = true
topology = "/etc/onecopy/topology.toml"

[tls]
ca = "/etc/ca.pem"
certificate = "/etc/east.pem"
key = "/etc/east.key"

[peers.west]
address = "10.0.0.2:7701"
uid_domain = "lab"
[peers."north.lab-1"]
address = "north.example:7701"
[peers.none]
address = "10.0.0.3:7701"
uid_domain = ""
[peers.caller]
[peers."gpu-?*"]
uid_domain = "lab"

[log]
level = "debug"
format = "journal"

[audit]
level = "all"
most_per_minute = 7
file = "/var/log/onecopy-audit.log"

[staging]
slot_bytes = "4KiB"
slots = 65536

[probes]
bytes = "64MiB"
share_permille = 1
wait = "0s"
limit = "1m"
lifetime = "1s"
retry = "2m"
jitter_percent = 0

[transfers]
stall_timeout = "2m"
resume_for = "0s"
drain_timeout = "0s"
keep = 0

[restart]
holder = "/run/onecopy-holder/holder.sock"
hold_for = "168h"

[api]
reflection = true

[limits]
buffers_per_user = 7
buffers = 9
request_memory = "5s"
health_watches = 0
reserved_percent = 50

[peering]
heartbeat = "500ms"
reconnect_delay_min = "1s"
reconnect_delay_max = "1s"

[libraries]
cuda = "/opt/libcuda.so.1"

[host]

[tcp]
lanes = 16
interfaces = []
buffer = 65536
linger = "1m"
quick = false
label = "ü"
)",
                            "f", TestSchema());
  REQUIRE_OK(parsed);
  const Config& config = *parsed;
  CHECK(config.name == "east");
  CHECK(config.listen == onecopy::os::HostPort{"::1", 9000});
  CHECK(onecopy::os::ToString(config.LanesAddresses()) == "10.0.0.1:9100");
  CHECK(config.run_dir == "/tmp/east");
  CHECK(config.uid_domain == "lab");
  CHECK(config.insecure);
  CHECK(config.topology == "/etc/onecopy/topology.toml");
  CHECK(config.tls.enabled());
  CHECK(config.tls.ca == "/etc/ca.pem");
  CHECK(config.tls.certificate == "/etc/east.pem");
  CHECK(config.tls.key == "/etc/east.key");
  REQUIRE(config.peers.size() == 5);
  CHECK(onecopy::os::ToString(config.peers.at("west").addresses) == "10.0.0.2:7701");
  CHECK(config.peers.at("west").uid_domain == "lab");
  CHECK(config.peers.at("north.lab-1").addresses.front().host == "north.example");
  CHECK_FALSE(config.peers.at("north.lab-1").uid_domain.has_value());
  CHECK(config.peers.at("none").uid_domain == "");
  CHECK(config.peers.at("caller").addresses.empty());
  CHECK(config.peers.at("gpu-?*").addresses.empty());
  CHECK(config.peers.at("gpu-?*").uid_domain == "lab");
  CHECK(config.log_level == "debug");
  CHECK(config.log_format == LogFormat::kJournal);
  CHECK(config.slot_bytes == 4096);
  CHECK(config.slots == 65536);
  CHECK(config.probe_bytes == 64 << 20);
  CHECK(config.probe_share_permille == 1);
  CHECK(config.probe_jitter_percent == 0);
  CHECK(config.probe_wait == milliseconds(0));
  CHECK(config.probe_limit == milliseconds(60'000));
  CHECK(config.probe_lifetime == milliseconds(1000));
  CHECK(config.probe_retry == milliseconds(120'000));
  CHECK(config.stall_timeout == milliseconds(120'000));
  CHECK(config.resume_for == milliseconds(0));
  CHECK(config.drain_timeout == milliseconds(0));
  CHECK(config.keep_transfers == 0);
  CHECK(config.holder == "/run/onecopy-holder/holder.sock");
  CHECK(config.hold_for == std::chrono::hours(24 * 7));
  CHECK(config.reflection);
  CHECK(AuditLevels()[config.audit_level] == "all");
  CHECK(config.audit_most_per_minute == 7);
  CHECK(config.audit_file == "/var/log/onecopy-audit.log");
  CHECK(config.limits.buffers == Limit{7, 9});
  CHECK(config.limits.grants == Limit{8192, 65'536});
  CHECK(config.limits.request_memory == milliseconds(5000));
  CHECK(config.limits.health_watches == 0);
  CHECK(config.limits.reserved_percent == 50);
  CHECK(config.heartbeat == milliseconds(500));
  CHECK(config.reconnect_delay_min == milliseconds(1000));
  CHECK(config.reconnect_delay_max == milliseconds(1000));
  CHECK(config.libraries.at("cuda") == "/opt/libcuda.so.1");
  CHECK(config.libraries.at("ibverbs").empty());
  const onecopy::Settings& tcp = config.backends.at("tcp");
  CHECK(tcp.Integer("lanes") == 16);
  CHECK(tcp.TextList("interfaces").empty());
  CHECK(tcp.Bytes("buffer") == 65536);
  CHECK(tcp.Duration("linger") == milliseconds(60'000));
  CHECK_FALSE(tcp.Bool("quick"));
  CHECK(tcp.Text("label") == "ü");
}

TEST_CASE("folders are exported to the users that are named") {
  const auto config = Parse(
      "[exports.data]\npath = \"/data\"\nread = \"1000@west  *@gpu-* 7\"\n"
      "write = \"*@gpu-1\"\nmode = \"664\"\nfollow = \"beneath\"\n[exports.all]\n"
      "path = \"/\"\n",
      "f.toml", TestSchema());
  REQUIRE_OK(config);
  REQUIRE(config->exports.size() == 2);
  CHECK(config->exports.at("all").path == "/");
  CHECK(config->exports.at("all").read.empty());
  const auto& read = config->exports.at("data").read;
  REQUIRE(read.size() == 3);
  CHECK(read[0] == onecopy::config::FileUser{1000, "west"});
  CHECK(read[1] == onecopy::config::FileUser{std::nullopt, "gpu-*"});
  CHECK(read[2] == onecopy::config::FileUser{7, ""});
  const auto& write = config->exports.at("data").write;
  REQUIRE(write.size() == 1);
  CHECK(write[0] == onecopy::config::FileUser{std::nullopt, "gpu-1"});
  CHECK(config->exports.at("data").mode == 0664);
  CHECK(config->exports.at("data").follow_beneath);
  CHECK_FALSE(config->exports.at("all").follow_beneath);
  CHECK(config->exports.at("all").write.empty());
  CHECK(config->exports.at("all").mode == 0640);
}

TEST_CASE("users and nodes have the weights and limits and priorities of their sections") {
  const auto config = Parse(
      "[qos.training]\nusers = \"1000  *@gpu-* 7@west\"\nnodes = \"west lab-?\"\nweight = 3\n"
      "[qos.rest]\nnodes = \"*\"\nrate_limit = \"2GiB\"\npriority = \"low\"\n",
      "f.toml", TestSchema());
  REQUIRE_OK(config);
  REQUIRE(config->shares.size() == 2);
  const auto& training = config->shares.at("training");
  using onecopy::config::FileUser;
  CHECK(training.users == std::vector<FileUser>{{1000, ""}, {std::nullopt, "gpu-*"}, {7, "west"}});
  CHECK(training.nodes == std::vector<std::string>{"west", "lab-?"});
  CHECK(training.weight == 3U);
  CHECK_FALSE(training.rate_limit_bytes_per_second);
  CHECK_FALSE(training.priority);
  CHECK(config->shares.at("rest").users.empty());
  CHECK(config->shares.at("rest").nodes == std::vector<std::string>{"*"});
  CHECK_FALSE(config->shares.at("rest").weight);
  CHECK(config->shares.at("rest").rate_limit_bytes_per_second == uint64_t{2} << 30);
  CHECK(config->shares.at("rest").priority == onecopy::Priority::kLow);
}

TEST_CASE("a file is read from where it is") {
  Folder folder;
  const auto config = Load(folder.Write("c.toml", "name = \"east\"\n"), TestSchema());
  REQUIRE_OK(config);
  CHECK(config->name == "east");
}

TEST_CASE("a problem of a file is said with its path and line") {
  Folder folder;
  const std::string file = folder.Write("c.toml", "name = \"east\"\nslots = 4\n");
  const auto config = Load(file, TestSchema());
  REQUIRE_FALSE(config.ok());
  CHECK(config.status().code() == Code::kInvalidArgument);
  CHECK(config.status().reason() == reasons::kBadConfig);
  CHECK(config.status().message().starts_with(file + ":2: "));
}

TEST_CASE("a file that is not there is NOT_FOUND, with its path") {
  const auto config = Load("/no/such/file.toml", TestSchema());
  REQUIRE_FALSE(config.ok());
  CHECK(config.status().code() == Code::kNotFound);
  CHECK(config.status().message().find("/no/such/file.toml") != std::string::npos);
  CHECK_FALSE(config.status().remedy().empty());
}

TEST_CASE("what cannot be read fails with what the system says") {
  Folder folder;
  auto config = Load(folder.path(), TestSchema());
  REQUIRE_FALSE(config.ok());
  CHECK(config.status().message().find("EISDIR") != std::string::npos);

  const std::string file = folder.Write("secret.toml", "");
  REQUIRE(::chmod(file.c_str(), 0) == 0);
  if (::geteuid() == 0) return;  // root reads everything
  config = Load(file, TestSchema());
  REQUIRE_FALSE(config.ok());
  CHECK(config.status().code() == Code::kPermissionDenied);
}

TEST_CASE("a file without an end is not read to its end") {
  const auto config = Load("/dev/zero", TestSchema());
  REQUIRE_FALSE(config.ok());
  CHECK(config.status().reason() == reasons::kBadConfig);
  CHECK(config.status().message().find("/dev/zero: it is longer than 1 MiB") == 0);
}

TEST_CASE("measured values fill the gaps of a file, and never replace what it says") {
  Folder folder;
  const std::string file = folder.Write("config.toml", "version = 1\n[staging]\nslots = 8\n");
  REQUIRE_OK(Load(file, TestSchema()));
  CHECK(Load(file, TestSchema())->tuned.empty());

  SECTION("from tuned.toml beside it") {
    const std::string tuned = folder.Write(
        "tuned.toml",
        "version = 1\n[staging]\nslots = 16\nslot_bytes = \"4MiB\"\n[tcp]\nlanes = 3\n");
    const auto config = Load(file, TestSchema());
    REQUIRE_OK(config);
    CHECK(config->tuned == tuned);
    CHECK(config->slots == 8);
    CHECK(config->slot_bytes == 4 << 20);
    CHECK(config->backends.at("tcp").Integer("lanes") == 3);
  }
  SECTION("from a file that it names") {
    const std::string tuned = folder.Write("other.toml", "[staging]\nslot_bytes = \"4MiB\"\n");
    const std::string naming = folder.Write("naming.toml", "tuned = \"" + tuned + "\"\n");
    const auto config = Load(naming, TestSchema());
    REQUIRE_OK(config);
    CHECK(config->slot_bytes == 4 << 20);
  }
}

TEST_CASE("what is wrong with measured values is told with their own file and line") {
  Folder folder;
  const std::string file = folder.Write("config.toml", "version = 1\n");
  const std::string tuned = folder.path() + "/tuned.toml";
  const auto complaint = [&](const std::string& text) {
    folder.Write("tuned.toml", text);
    const auto config = Load(file, TestSchema());
    REQUIRE_FALSE(config.ok());
    CHECK(config.status().reason() == reasons::kBadConfig);
    return config.status().message();
  };
  CHECK(complaint("[staging]\nslots = 1\n").starts_with(tuned + ":2: "));
  CHECK(complaint("[staging]\nslotz = 8\n").starts_with(tuned + ":2: "));
  CHECK(complaint("= 8\n").starts_with(tuned + ":1: "));
  CHECK(complaint("version = 2\n").starts_with(tuned + ":1: "));
  CHECK(complaint("name = \"east\"\n")
            .find("is not a setting that a file of measured values may have") != std::string::npos);
  const std::string naming = folder.Write("naming.toml", "tuned = \"/nowhere/tuned.toml\"\n");
  CHECK(Load(naming, TestSchema()).status().code() == Code::kNotFound);
}

TEST_CASE("text without quotes is told to need them") {
  const onecopy::Status refused = Parse("version = 1\nname = east\n", "f", TestSchema()).status();
  CHECK(refused.message().find("f:2: ") != std::string::npos);
  CHECK(refused.message().find("put text in quotes") != std::string::npos);
}
