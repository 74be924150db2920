// `onecopy init`: what an operator types on the first of two machines.
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"
#include "tests/support/node.h"
#include "tests/support/temp_folder.h"
#include "tests/support/text.h"
#include "transport/os/sockets/host_port.h"

namespace init_test {
namespace {

using namespace onecopy::testing;

// An address of loopback that no other process of this machine has: it is made of the process id.
std::string OwnHost() {
  const int id = ::getpid();
  return "127." + std::to_string(64 + (id >> 16 & 63)) + "." + std::to_string(id >> 8 & 255) + "." +
         std::to_string(1 + id % 254);
}

std::string East() { return OwnHost() + ":7701"; }
std::string West() { return OwnHost() + ":7711"; }

// Folders of the files that init writes.
struct Machine {
  TempFolder folder;
  const std::string out = folder / "etc";
  const std::string authority = folder / "authority";

  CommandResult Init(std::vector<std::string> more, const std::string& input = {}) const {
    std::vector<std::string> words{"--json", "init", "--out", out};
    words.insert(words.end(), more.begin(), more.end());
    return RunCommand("onecopy", words, input);
  }
  // East, with a peer west and certificates for both.
  Json Both(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"--name", "east", "--listen", East(), "--peer", "west=" + West(),
                               "--ca", authority, "--uid-domain", "test"});
    const CommandResult run = Init(more);
    INFO(run.out + run.err);
    REQUIRE(run.exit_status == 0);
    return run.json;
  }
  std::string Config() const { return out + "/config.toml"; }
};

// A daemon with such a configuration.
class Daemon {
 public:
  Daemon(const std::string& config, const std::string& run_dir)
      : run_dir_(run_dir),
        process_(
            {.program = "onecopyd",
             .arguments = {"--config", config, "--run-dir", run_dir, "--metrics-listen", "off"},
             .error_file = run_dir + ".log"}) {
    const std::string ready = process_.ReadLine();
    INFO(ReadFile(run_dir + ".log"));
    REQUIRE(ready.starts_with("ready "));
  }

  CommandResult Run(std::vector<std::string> words) const {
    words.insert(words.begin(), {"--run-dir", run_dir_, "--json"});
    return RunCommand("onecopy", words);
  }
  void WaitForPeer(const std::string& peer) const {
    WaitUntil(peer + " is connected", [&] {
      const CommandResult run = Run({"node", "show", peer});
      return run.exit_status == 0 && run.json.at("state") == "CONNECTED";
    });
  }

 private:
  const std::string run_dir_;
  Process process_;
};

// What init says of its only peer.
Json Peer(const Json& document) {
  REQUIRE(document.at("peers").size() == 1);
  return document.at("peers").at(0);
}

void CopyPeersFiles(const Machine& machine) {
  for (const char* const file : {"west.pem", "west.key"}) {
    std::filesystem::copy_file(machine.authority + "/for-west/" + file, machine.out + "/" + file);
  }
}

}  // namespace

TEST_CASE("init makes two nodes that accept each other") {
  const Machine machine;
  const Json first = machine.Both();
  CHECK(first.at("node") == "east");
  CHECK(first.at("listen") == East());
  CHECK(first.at("folders").at("west") == machine.authority + "/for-west");
  CHECK(Peer(first).at("answers") == false);
  CHECK(Peer(first).at("reason") == "PEER_DOWN");
  for (const Json& file : first.at("files")) {
    CHECK(std::filesystem::exists(file.get<std::string>()));
  }
  for (const std::string& key : {machine.out + "/east.key", machine.authority + "/ca.key"}) {
    CHECK((std::filesystem::status(key).permissions() & std::filesystem::perms::others_all) ==
          std::filesystem::perms::none);
  }

  // As scp would bring them to the other machine.
  CopyPeersFiles(machine);
  const std::string west_config = machine.authority + "/for-west/config.toml";
  for (const std::string& config : {machine.Config(), west_config}) {
    const CommandResult checked = RunCommand("onecopyd", {"config", "check", config});
    INFO(checked.out + checked.err);
    CHECK(checked.exit_status == 0);
  }
  const Daemon west(west_config, machine.folder / "west");
  const Daemon east(machine.Config(), machine.folder / "east");
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  REQUIRE(west.Run({"buffer", "create", "b", "--size", "4096"}).exit_status == 0);
  REQUIRE(east.Run({"buffer", "create", "a", "--size", "4096"}).exit_status == 0);
  const CommandResult moved = east.Run({"cp", "a", "west:b", "--checksum"});
  INFO(moved.out + moved.err);
  REQUIRE(moved.exit_status == 0);
  CHECK(Has(moved.json.at("encryption"), "TLS"));

  // The peer proves now that it is the one.
  const std::string before = ReadFile(machine.Config());
  const Json again = machine.Both({"--replace"});
  CHECK(Peer(again).at("answers") == true);
  CHECK(ReadFile(machine.Config()) == before);
  CHECK(ReadFile(machine.Config() + ".old") == before);
}

TEST_CASE("a peer that is another node, or of another authority, is told") {
  const Machine machine;
  machine.Both();
  CopyPeersFiles(machine);
  const Daemon west(machine.authority + "/for-west/config.toml", machine.folder / "west");

  const std::vector<std::string> other_name = {
      "--name", "east", "--listen", East(), "--peer", "north=" + West(), "--replace"};
  const CommandResult north = machine.Init(other_name);
  INFO(north.out + north.err);
  CHECK(north.exit_status == 4);
  CHECK(Peer(north.json).at("reason") == "CERT_REJECTED");

  const Machine stranger;
  const CommandResult of_another = stranger.Init({"--name", "east", "--listen", East(), "--peer",
                                                  "west=" + West(), "--ca", stranger.authority});
  INFO(of_another.out + of_another.err);
  CHECK(of_another.exit_status == 4);
  CHECK(Peer(of_another.json).at("reason") == "CERT_REJECTED");
}

TEST_CASE("a peer without TLS, and one that says nothing, are told") {
  const Node plain("west");
  const Machine machine;
  const CommandResult run = machine.Init(
      {"--name", "east", "--listen", East(), "--peer", plain.AsPeer(), "--ca", machine.authority});
  INFO(run.out + run.err);
  CHECK(run.exit_status == 0);
  CHECK(Peer(run.json).at("reason") == "PEER_DOWN");
  CHECK(Has(Peer(run.json).at("message"), "TLS"));

  // It is never accepted, and so never answered.
  const auto silent = onecopy::os::ListenTcp({"127.0.0.1", 0}, 4);
  REQUIRE_OK(silent);
  const auto where = onecopy::os::LocalAddress(silent->get());
  REQUIRE_OK(where);
  const CommandResult waited = machine.Init(
      {"--name", "east", "--listen", East(), "--replace", "--peer", "west=" + where->ToString()});
  INFO(waited.out + waited.err);
  CHECK(waited.exit_status == 0);
  CHECK(Has(Peer(waited.json).at("message"), "does not answer"));
}

TEST_CASE("without certificates a node listens on loopback, or is told to be insecure") {
  const Machine machine;
  const CommandResult alone =
      machine.Init({"--name", "east", "--listen", "127.0.0.1:7701", "--no-check"});
  INFO(alone.out + alone.err);
  REQUIRE(alone.exit_status == 0);
  CHECK_FALSE(Has(ReadFile(machine.Config()), "insecure"));

  const std::vector<std::string> reachable = {"--name", "east", "--listen", "192.0.2.1:7701",
                                              "--replace"};
  const std::string before = ReadFile(machine.Config());
  const CommandResult refused = machine.Init(reachable);
  CHECK(refused.exit_status == 2);
  CHECK(refused.reason() == "BAD_CONFIG");
  CHECK(Has(refused.json.at("error").at("remedy"), "--ca"));
  CHECK(ReadFile(machine.Config()) == before);

  std::vector<std::string> insecure = reachable;
  insecure.push_back("--insecure");
  CHECK(machine.Init(insecure).exit_status == 0);
  CHECK(Has(ReadFile(machine.Config()), "insecure = true"));
}

TEST_CASE("questions are answered by lines") {
  const Machine machine;
  const CommandResult run = machine.Init(
      {"--ask", "--listen", East(), "--no-check"},
      "east\nwest=" + West() + "\nnorth=127.0.0.9:7701\n\n" + machine.authority + "\n");
  INFO(run.out + run.err);
  REQUIRE(run.exit_status == 0);
  CHECK(Has(run.err, "Name of this node"));
  CHECK(run.json.at("folders").size() == 2);
  const std::string west = ReadFile(machine.authority + "/for-west/config.toml");
  CHECK(Has(west, "name = \"west\""));
  CHECK(Has(west, "[peers.\"east\"]\naddress = \"" + East() + "\""));
  CHECK(Has(west, "[peers.\"north\"]\naddress = \"127.0.0.9:7701\""));
}

TEST_CASE("without --listen, a node listens where it reaches its first peer from") {
  const Machine machine;
  const CommandResult run = machine.Init(
      {"--name", "east", "--peer", "west=" + West(), "--ca", machine.authority, "--no-check"});
  INFO(run.out + run.err);
  REQUIRE(run.exit_status == 0);
  CHECK(run.json.at("listen") == "127.0.0.1:7701");  // the source of all that goes to loopback
}

TEST_CASE("another authority's certificate is not replaced unasked") {
  const Machine machine;
  std::filesystem::create_directory(machine.out);
  WriteFile(machine.out + "/ca.pem", "of another authority");
  const CommandResult run =
      machine.Init({"--name", "east", "--listen", East(), "--ca", machine.authority, "--no-check"});
  CHECK(run.reason() == "NAME_TAKEN");
  CHECK(ReadFile(machine.out + "/ca.pem") == "of another authority");
}

TEST_CASE("what is wrong with a node or a peer is said, and nothing is written") {
  const Machine machine;
  const auto refuse = [&](std::vector<std::string> words, const std::string& reason) {
    words.insert(words.end(), {"--ca", machine.authority});
    const CommandResult run = machine.Init(words);
    INFO(run.out + run.err);
    CHECK(run.exit_status == 2);
    CHECK(run.reason() == reason);
    CHECK_FALSE(std::filesystem::exists(machine.out));
    CHECK_FALSE(std::filesystem::exists(machine.authority));
  };
  const std::string listen = "--listen=" + East();
  refuse({listen, "--name", "east", "--peer", "west"}, "BAD_ARGUMENT");
  refuse({listen, "--name", "east", "--peer", "we st=127.0.0.1:1"}, "BAD_NAME");
  refuse({listen, "--name", "east", "--peer", "west=127.0.0.1"}, "BAD_ARGUMENT");
  refuse({listen, "--name", "east", "--peer", "west=127.0.0.1:0"}, "BAD_ARGUMENT");
  refuse({listen, "--name", "east", "--peer", "west=:7701"}, "BAD_ARGUMENT");
  refuse({listen, "--name", "east", "--peer", "east=127.0.0.1:1"}, "BAD_NAME");
  refuse({listen, "--name", "east", "--peer", "west=" + East()}, "BAD_ARGUMENT");
  refuse({listen, "--name", "east", "--peer", "w=127.0.0.1:1", "--peer", "w=127.0.0.1:2"},
         "BAD_NAME");
  refuse({listen, "--name", "../east"}, "BAD_NAME");
  refuse({"--listen", "7701", "--name", "east"}, "BAD_ARGUMENT");
}

TEST_CASE("files that are there stay, unless they are to be replaced") {
  const Machine machine;
  std::filesystem::create_directory(machine.out);
  WriteFile(machine.Config(), "version = 1\nname = \"mine\"\n");
  const std::vector<std::string> words = {
      "--name", "east", "--listen", East(), "--ca", machine.authority, "--no-check"};
  const CommandResult run = machine.Init(words);
  CHECK(run.reason() == "NAME_TAKEN");
  CHECK(ReadFile(machine.Config()) == "version = 1\nname = \"mine\"\n");
  CHECK_FALSE(std::filesystem::exists(machine.authority));
  std::vector<std::string> replaces = words;
  replaces.push_back("--replace");
  CHECK(machine.Init(replaces).exit_status == 0);
  CHECK(ReadFile(machine.Config() + ".old") == "version = 1\nname = \"mine\"\n");

  // Init reports a ca.pem that is not a certificate, and does not replace it.
  WriteFile(machine.authority + "/ca.pem", "nonsense");
  const CommandResult broken = machine.Init(replaces);
  CHECK(broken.exit_status != 0);
  CHECK(ReadFile(machine.authority + "/ca.pem") == "nonsense");
}

}  // namespace init_test
