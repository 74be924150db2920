// Configuration files that are wrong, and flags.
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/certificates.h"
#include "tests/support/node.h"

namespace configuration_test {
namespace {

using namespace onecopy::testing;

// What `config check` and a start say of that file: the same, with the same status.
struct Refused {
  TempFolder folder;
  std::string file = folder / "config.toml";

  void Check(const std::string& text, int exit_status, const std::vector<std::string>& words) {
    WriteFile(file, text);
    CheckFile(exit_status, words, true);
  }
  void CheckFile(int exit_status, const std::vector<std::string>& words, bool check_command) {
    const CommandResult started =
        RunCommand("onecopyd", {"--config", file, "--listen", "127.0.0.1:0", "--lanes",
                                "127.0.0.1:0", "--run-dir", folder / "run"});
    CheckSaid(started, exit_status, words);
    if (!check_command) return;
    const CommandResult checked = RunCommand("onecopyd", {"config", "check", file});
    CheckSaid(checked, exit_status, words);
    CHECK(checked.err == started.err);
    CHECK_FALSE(std::filesystem::exists(folder / "run"));
  }
  static void CheckSaid(const CommandResult& result, int exit_status,
                        const std::vector<std::string>& words) {
    INFO(result.out << result.err);
    CHECK(result.exit_status == exit_status);
    CHECK(result.out == "");
    for (const std::string& word : words) {
      INFO(word);
      CHECK(result.err.find(word) != std::string::npos);
    }
  }
};

}  // namespace

TEST_CASE("the default configuration is a right configuration") {
  const auto printed = RunCommand("onecopyd", {"config", "default"});
  REQUIRE(printed.exit_status == 0);
  const TempFolder folder;
  WriteFile(folder / "config.toml", printed.out);
  const auto checked = RunCommand("onecopyd", {"config", "check", folder / "config.toml"});
  CHECK(checked.exit_status == 0);
  CHECK(checked.err == "");
}

TEST_CASE("unknown keys are refused with their lines, and what was probably meant") {
  Refused refused;
  refused.Check("version = 1\nnmae = \"x\"\n", 2, {"config.toml:2:", "nmae", "name?"});
  refused.Check("[stagging]\nslots = 8\n", 2, {"config.toml:1:", "stagging", "staging?"});
  refused.Check("\n\n[staging]\nslotz = 8\n", 2, {"config.toml:4:", "slotz", "slots?"});
  refused.Check("[tcp]\nlane = 1\n", 2, {"config.toml:2:", "lane", "lanes?"});
  refused.Check("[peers.west]\naddress = \"127.0.0.1:5\"\nport = 5\n", 2,
                {"config.toml:3:", "port"});
}

TEST_CASE("values of a wrong type or out of bounds are refused with their lines") {
  Refused refused;
  refused.Check("version = 1\n\nname = 5\n", 2, {"config.toml:3:", "name", "text"});
  refused.Check("insecure = \"yes\"\n", 2, {"config.toml:1:", "insecure", "true or false"});
  refused.Check("[staging]\nslots = \"8\"\n", 2, {"config.toml:2:", "slots", "number"});
  refused.Check("[staging]\nslots = 2\n", 2, {"config.toml:2:", "between 4 and 65536"});
  refused.Check("[staging]\nslot_bytes = \"12XB\"\n", 2, {"config.toml:2:", "12XB"});
  refused.Check("[staging]\nslots = 99999999999999999999\n", 2, {"config.toml:2:"});
  refused.Check("[transfers]\nstall_timeout = \"1parsec\"\n", 2, {"config.toml:2:", "parsec"});
  refused.Check("[transfers]\nstall_timeout = 1\n", 2, {"config.toml:2:", "duration"});
  refused.Check("[log]\nlevel = \"loud\"\n", 2, {"config.toml:2:", "loud", "warning"});
  refused.Check("listen = \"nowhere\"\n", 2, {"config.toml:1:", "nowhere", "HOST:PORT"});
  refused.Check("name = \"a b\"\n", 2, {"config.toml:1:", "a b"});
  refused.Check("[peers]\nwest = \"127.0.0.1:1\"\n", 2, {"config.toml:2:", "[peers.west]"});
  refused.Check("[peers.west]\naddress = \"west\"\n", 2, {"config.toml:2:", "HOST:PORT"});
  refused.Check("[peers.\"west-*\"]\naddress = \"127.0.0.1:1\"\n", 2,
                {"config.toml:1:", "is a pattern, and a pattern has no address"});
  // All of them at once.
  refused.Check("[log]\nlevel = \"loud\"\nformat = 3\nx = 1\n", 2,
                {"config.toml:2:", "config.toml:3:", "config.toml:4:"});
}

TEST_CASE("what is no TOML, or of another version, is refused with its line") {
  Refused refused;
  refused.Check("version = 1\nname = \"x\n", 2, {"config.toml:2:"});
  refused.Check("version = 1\nname\n", 2, {"config.toml:2:"});
  refused.Check("name = \"a\"\nname = \"b\"\n", 2, {"config.toml:2:", "name"});
  refused.Check("\xff\xfe\n", 2, {"config.toml:1:"});
  refused.Check("version = 2\n", 2, {"config.toml:1:", "version must be 1"});
  refused.Check("version = \"1\"\n", 2, {"config.toml:1:", "version"});
  refused.Check(std::string("\0\0\0\0", 4), 2, {"config.toml:1:"});
}

TEST_CASE("files that are missing, folders, or unreadable are named") {
  Refused refused;
  refused.CheckFile(2, {refused.file, "No such file", "config default"}, true);
  std::filesystem::create_directory(refused.file);
  refused.CheckFile(2, {refused.file, "directory"}, true);
  Refused::CheckSaid(RunCommand("onecopyd", {"--config", ""}), 2, {"--config"});
}

TEST_CASE("a file that may not be read is named") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root can act as another user");
  Refused refused;
  WriteFile(refused.file, "version = 1\n");
  std::filesystem::permissions(refused.folder.path(), std::filesystem::perms(0755));
  std::filesystem::permissions(refused.file, std::filesystem::perms(0600));
  const auto checked = RunCommand("onecopyd", {"config", "check", refused.file}, {}, [] {
    if (::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(126);
  });
  Refused::CheckSaid(checked, 2, {refused.file, "Permission denied"});
}

TEST_CASE("TLS is set wholly and rightly, or not at all") {
  Refused refused;
  refused.Check("[tls]\nca = \"/x\"\n", 2, {"certificate", "key"});
  const auto tls = [&](const std::string& ca, const std::string& certificate,
                       const std::string& key, const std::vector<std::string>& words) {
    WriteFile(refused.file, "[tls]\nca = \"" + ca + "\"\ncertificate = \"" + certificate +
                                "\"\nkey = \"" + key + "\"\n");
    refused.CheckFile(2, words, true);
  };
  Authority authority;
  const auto good = authority.Issue("good", "DNS:east,URI:onecopy://east");
  const auto other = authority.Issue("other", "DNS:west,URI:onecopy://west");
  const auto old = authority.Issue("old", "DNS:east", true);
  const std::string missing = refused.folder / "missing.pem";
  const std::string garbage = refused.folder / "garbage.pem";
  WriteFile(garbage, "not a certificate");
  tls(missing, good.certificate, good.key, {missing, "[tls]"});
  tls(authority.ca(), missing, good.key, {missing, "[tls]"});
  tls(authority.ca(), good.certificate, missing, {missing, "[tls]"});
  tls(garbage, good.certificate, good.key, {garbage, "[tls]"});
  tls(authority.ca(), garbage, good.key, {garbage, "[tls]"});
  REQUIRE(::chmod(garbage.c_str(), 0600) == 0);
  tls(authority.ca(), good.certificate, garbage, {garbage, "[tls]"});
  tls(authority.ca(), good.certificate, other.key, {other.key, "[tls]"});
  tls(authority.ca(), old.certificate, old.key, {old.certificate, "expired"});
  REQUIRE(::chmod(good.key.c_str(), 0644) == 0);
  tls(authority.ca(), good.certificate, good.key, {good.key, "0644", "chmod"});
}

TEST_CASE("a file that is right but for what cannot be served is right") {
  // What a start alone can find out, such as a port that is in use, is no matter of the file.
  Node east("east");
  const TempFolder folder;
  WriteFile(folder / "config.toml", "name = \"east\"\nlisten = \"" + east.address() + "\"\n");
  CHECK(RunCommand("onecopyd", {"config", "check", folder / "config.toml"}).exit_status == 0);
}

TEST_CASE("settings of backends are checked with their lines") {
  Refused refused;
  refused.Check("[tcp]\nzero_copy = \"maybe\"\n", 2, {"config.toml:2:", "maybe", "measured"});
  refused.Check("[cuda]\nscatter = \"kernal\"\n", 2, {"config.toml:2:", "kernel?"});
  refused.Check("topology = \"/nowhere.toml\"\n", 2, {"/nowhere.toml"});
}

TEST_CASE("flags come before the file") {
  Node east("east",
            {.peers = {},
             .config = "name = \"other\"\nlisten = \"127.0.0.1:1\"\nrun_dir = \"/nowhere\"\n"
                       "[peers.west]\naddress = \"127.0.0.1:1\"\n"});
  CHECK(east.Do({"node", "show"}).at("name") == "east");
  Node north("north", {.peers = {"west=127.0.0.1:2"},
                       .config = "[peers.west]\naddress = \"127.0.0.1:1\"\n"});
  CHECK(north.Do({"node", "show", "west"}).at("address") == "127.0.0.1:2");
}
}  // namespace configuration_test
