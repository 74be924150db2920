// SIGHUP: what a daemon reads again, and what it says about it.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "tests/support/sanitized.h"

namespace reload_test {
namespace {

using namespace onecopy::testing;

constexpr char kQuick[] = "[peering]\nheartbeat = \"200ms\"\nreconnect_delay_max = \"200ms\"\n";
constexpr char kRead[] = "the configuration was reloaded";
constexpr size_t kFileBytes = 100'000;

std::string PeerSection(const Node& peer) {
  return "[peers." + peer.name() + "]\naddress = \"" + peer.address() + "\"\n";
}

// Has the node read its file again, and what its log says about it.
std::string Reload(Node& node, const std::string& until) {
  const size_t before = node.Log().size();
  node.process().Signal(SIGHUP);
  WaitUntil(node.name() + " says: " + until, [&] {
    const std::string log = node.Log();
    const size_t said = log.find(until, before);
    return said != std::string::npos && log.find('\n', said) != std::string::npos;
  });
  return node.Log().substr(before);
}

// Likewise with that configuration.
std::string ReadAgain(Node& node, const std::string& config, const std::string& until) {
  WriteFile(node.folder() / "config.toml", "version = 1\n" + config);
  return Reload(node, until);
}

void CheckSays(const std::string& log, const std::string& words) {
  INFO(log);
  CHECK(log.find(words) != std::string::npos);
}

}  // namespace

TEST_CASE("SIGHUP adds peers, moves them, and forgets them") {
  Node west("west", {.config = kQuick});
  Node north("north", {.config = kQuick});
  Node east("east", {.config = kQuick});
  const std::string first = ReadAgain(east, kQuick + PeerSection(west), kRead);
  CheckSays(first, "peers.west.address: (not set) -> ");
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  CheckMoves(east, west);

  // The same name at an address where nobody is, then where another one is.
  CheckSays(
      ReadAgain(east, std::string(kQuick) + "[peers.west]\naddress = \"127.0.0.1:1\"\n", kRead),
      "-> \\\"127.0.0.1:1\\\"");
  east.WaitForPeer("west", "DISCONNECTED");
  CHECK(east.Do({"node", "show", "west"}).at("address") == "127.0.0.1:1");
  ReadAgain(east, kQuick + PeerSection(west) + PeerSection(north), kRead);
  east.WaitForPeer("west");
  east.WaitForPeer("north");

  // On plain text a daemon of this user here may introduce itself again.
  CHECK(north.Stop() == 0);
  const std::string gone = ReadAgain(east, kQuick + PeerSection(west), kRead);
  CheckSays(gone, "peers.north.address");
  WaitUntil("east does not know north any more", [&] {
    return east.Run({"node", "show", "north"}).reason() == "PEER_NOT_FOUND" ||
           east.Do({"node", "ls"}).size() == 2;
  });
  CheckMoves(east, west);
}

TEST_CASE("SIGHUP exports folders, and exports them no more") {
  const TempFolder data;
  WriteFile(data / "model", Payload(kFileBytes, 3));
  const std::string all = "\"" + std::to_string(::getuid()) + "@east\"\n";
  const std::string named =
      std::string(kQuick) + "[exports.data]\npath = \"" + data.path().string() + "\"\n";
  Node west("west", {.config = kQuick});
  Node east("east", {.peers = {west.AsPeer()}, .config = kQuick});
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  const std::string file = "west:" + std::string(data / "model");
  east.Do({"buffer", "create", "b", "--size", std::to_string(kFileBytes)});
  CHECK(east.Run({"cp", file, "b"}).reason() == "ACCESS_DENIED");
  CheckSays(ReadAgain(west, named + "read = " + all, kRead), "exports.data.read: (not set) -> ");
  east.Do({"cp", file, "b"});
  CHECK(east.Run({"cp", "b", file}).reason() == "ACCESS_DENIED");
  ReadAgain(west, named + "write = " + all, kRead);
  east.Do({"cp", "b", file});
  CHECK(east.Run({"cp", file, "b"}).reason() == "ACCESS_DENIED");
  // One that is wrong takes nothing away.
  ReadAgain(west, std::string(kQuick) + "[exports.data]\npath = \"data\"\n",
            "the old one stays in use");
  east.Do({"cp", "b", file});
  CheckSays(ReadAgain(west, kQuick, kRead), "exports.data.path");
  CHECK(east.Run({"cp", "b", file}).reason() == "ACCESS_DENIED");
}

TEST_CASE("SIGHUP sets the log's level, and says what waits for another start") {
  Node east("east", {.config = kQuick});
  const std::string log = ReadAgain(
      east,
      std::string(kQuick) + "[log]\nlevel = \"debug\"\n[staging]\nslots = 8\n[tcp]\nlanes = 3\n",
      "take effect at the next start");
  CheckSays(log, "log.level");
  CheckSays(log, "staging.slots: 64 -> 8");
  CheckSays(log, "tcp.lanes: 0 -> 3");
  // What was told once as done is done; what waits is told again.
  const std::string again =
      ReadAgain(east, std::string(kQuick) + "[log]\nlevel = \"debug\"\n[staging]\nslots = 8\n",
                "take effect at the next start");
  CheckSays(again, "changed=nothing");
  CheckSays(again, "staging.slots");
  CHECK(again.find("tcp.lanes") == std::string::npos);
  CheckSays(ReadAgain(east, kQuick, kRead), "log.level");
  CheckServes(east);
}

TEST_CASE("a log level that was set at run time stays until the file has another one") {
  Node east("east", {.config = kQuick});
  CHECK(east.Do({"node", "log-level", "debug"}).at("previous_level") == "info");
  const std::string again = ReadAgain(east, kQuick, kRead);
  CheckSays(again, "changed=nothing");
  CHECK(again.find("at run time") == std::string::npos);
  CHECK(east.Do({"node", "log-level", "debug"}).at("previous_level") == "debug");
  const std::string replaced =
      ReadAgain(east, std::string(kQuick) + "[log]\nlevel = \"warning\"\n", "at run time");
  CheckSays(replaced, "was=debug");
  CheckSays(replaced, "now=warning");
  CHECK(east.Do({"node", "log-level", "info"}).at("previous_level") == "warning");
}

TEST_CASE("a configuration that has become wrong changes nothing") {
  Node west("west", {.config = kQuick});
  Node east("east", {.config = kQuick + PeerSection(west)});
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  for (const char* wrong : {"[peers.west]\nport = 1\n", "[log]\nlevel = \"loud\"\n", "nonsense",
                            "[peers.far]\naddress = \"10.0.0.9:7701\"\n"}) {
    INFO(wrong);
    CheckSays(ReadAgain(east, wrong, "the old one stays in use"), "why=");
    CHECK(east.Do({"node", "show", "west"}).at("state") == "CONNECTED");
  }
  CHECK(east.Do({"node", "ls"}).size() == 2);
  CheckMoves(east, west);
}

TEST_CASE("a configuration that is cut short, gone or unreadable changes nothing") {
  Node west("west", {.config = kQuick});
  const std::string whole = kQuick + PeerSection(west);
  Node east("east", {.config = whole});
  east.WaitForPeer("west");
  const std::string file = east.folder() / "config.toml";
  constexpr char kStays[] = "the old one stays in use";
  // As an editor may have written it so far.
  for (const size_t length :
       {whole.size() - 3, whole.find("address") + 4, whole.find("[peers") + 5}) {
    CAPTURE(length);
    CheckSays(ReadAgain(east, whole.substr(0, length), kStays), "why=");
  }
  std::filesystem::remove(file);
  CheckSays(Reload(east, kStays), "why=");
  std::filesystem::create_directory(file);
  CheckSays(Reload(east, kStays), "why=");
  std::filesystem::remove(file);
  if (::geteuid() != 0) {  // root reads everything
    WriteFile(file, "version = 1\n" + whole);
    REQUIRE(::chmod(file.c_str(), 0) == 0);
    CheckSays(Reload(east, kStays), "why=");
  }
  CHECK(east.Do({"node", "show", "west"}).at("state") == "CONNECTED");
  CheckMoves(east, west);
  CheckSays(ReadAgain(east, whole, kRead), "changed=nothing");
}

TEST_CASE("SIGHUP ends no daemon, whatever libraries made of it") {
  // Without a file, as soon as it serves, and many times.
  Node east("east", {.environment = {"UCX_DEBUG_SIGNO=SIGHUP", "UCX_HANDLE_ERRORS=bt"}});
  for (int i = 0; i < 20; ++i) east.process().Signal(SIGHUP);
  WaitUntil("east has read it", [&] { return east.Log().find(kRead) != std::string::npos; });
  CHECK(east.Log().find("DEBUG") == std::string::npos);
  const std::string status = ReadFile("/proc/" + std::to_string(east.process().pid()) + "/status");
  // Bits from SIGHUP, the lowest, on: of those that end or steer a process nobody catches any.
  const size_t caught = status.find("SigCgt:\t");
  REQUIRE(caught != std::string::npos);
  const uint64_t mask = std::stoull(status.substr(caught + 8, 16), nullptr, 16);
  for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGSEGV, SIGILL, SIGFPE, SIGABRT}) {
    INFO(signal);
    if (kAddressSanitizer && (signal == SIGSEGV || signal == SIGFPE)) continue;  // the sanitizer's
    CHECK((mask & (uint64_t{1} << (signal - 1))) == 0);
  }
  CheckServes(east);
  CHECK(east.Stop() == 0);
}
}  // namespace reload_test
