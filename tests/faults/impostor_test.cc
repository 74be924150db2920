// Somebody else of this machine takes a peer's port while the peer is down.
#include <grp.h>
#include <unistd.h>

#include <filesystem>

#include "tests/cluster/receipts.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"

namespace impostor_test {
namespace {

using namespace onecopy::testing;

constexpr uid_t kImpostor = 65533;

constexpr const char* kWhyRoot = "only root can act as another user, or as a container's root";

void Become(uid_t uid) {
  if (::setgroups(0, nullptr) != 0 || ::setgid(uid) != 0 || ::setuid(uid) != 0) ::_exit(126);
}

const std::string kQuick =
    "[peering]\nheartbeat = \"200ms\"\nreconnect_delay_min = \"50ms\"\nreconnect_delay_max = "
    "\"200ms\"\n";

// A daemon of that name at that address, which is not who it says.
class Impostor {
 public:
  Impostor(const Node& of, bool in_container) {
    if (!in_container) REQUIRE(::chown(folder_.path().c_str(), kImpostor, kImpostor) == 0);
    std::vector<std::string> arguments = {"--name",  of.name(),     "--listen",  of.address(),
                                          "--lanes", "127.0.0.1:0", "--run-dir", run_dir()};
    ProcessOptions options{.program = "onecopyd", .error_file = folder_ / "log"};
    if (in_container) {
      options.program = "/usr/bin/unshare";
      arguments.insert(arguments.begin(), {"--pid", "--fork", "--kill-child",
                                           (ProgramFolder() / "onecopyd").string()});
    } else {
      options.in_child = [] { Become(kImpostor); };
    }
    options.arguments = arguments;
    process_ = std::make_unique<Process>(options);
    const std::string ready = process_->ReadLine();
    INFO(ready << ReadFile(folder_ / "log"));
    REQUIRE(ready.rfind("ready name=" + of.name(), 0) == 0);
  }
  std::string run_dir() const { return folder_ / "run"; }

 private:
  TempFolder folder_;
  std::unique_ptr<Process> process_;
};

}  // namespace

TEST_CASE(
    "who takes a peer's port while it is down is not believed, whatever its uid or namespace") {
  if (::geteuid() != 0) ONECOPY_SKIP(kWhyRoot);
  const bool in_container = GENERATE(false, true);
  CAPTURE(in_container);
  Pair pair(kQuick);
  const Kept kept(pair.east);
  const std::string mine = Payload(10'000, 1);
  pair.east.Do({"buffer", "create", "a", "--size", "10000", "--memory", "host"});
  pair.east.Do({"cp", "-", "a"}, mine);
  pair.west.Do({"buffer", "create", "c", "--size", "10000", "--memory", "host"});
  REQUIRE(pair.west.Stop() == 0);
  pair.east.WaitForPeer("west", "DISCONNECTED");
  {
    const Impostor impostor(pair.west, in_container);
    // It has the buffer that is expected, with bytes of its own, for everybody.
    const auto forge = [&](std::vector<std::string> arguments, const std::string& input = {}) {
      arguments.insert(arguments.begin(), {"--run-dir", impostor.run_dir()});
      const CommandResult result = RunCommand("onecopy", arguments, input, [in_container] {
        if (!in_container) Become(kImpostor);
      });
      INFO(result.out << result.err);
      REQUIRE(result.exit_status == 0);
    };
    forge({"buffer", "create", "c", "--size", "10000", "--memory", "host"});
    forge({"cp", "-", "c"}, Payload(10'000, 2));
    forge({"grant", "add", "c", "--to", "0@east", "--read", "--write"});

    // Whichever of the two ends it: the impostor, which is no worse a daemon, minds, too.
    Json seen;
    WaitUntil("east has met the impostor", [&] {
      seen = pair.east.Do({"node", "show", "west"});
      const std::string detail = seen.at("detail");
      return seen.at("state") == "CONNECTED" || detail.find("at once") != std::string::npos ||
             seen.at("reason") == "ACCESS_DENIED";
    });
    CHECK(seen.at("state") == "DISCONNECTED");
    CHECK(pair.east.Run({"cp", "west:c", "a"}).exit_status == 5);
    CHECK(pair.east.Run({"cp", "a", "west:c"}).exit_status == 5);
    CHECK(Contents(pair.east, "a") == mine);
  }
  // The right one is met again.
  pair.west.Restart();
  pair.east.WaitForPeer("west");
  CheckMoves(pair.east, pair.west);
  CheckMoves(pair.west, pair.east);
  kept.CheckUnchanged();
}

TEST_CASE("who answers at a peer's address is told nothing before it is known who that is") {
  if (::geteuid() != 0) ONECOPY_SKIP(kWhyRoot);
  const bool in_container = GENERATE(false, true);
  CAPTURE(in_container);
  // Speaks first, as a server does, and tells what it hears.
  const std::string listener = R"(
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    connection.sendall(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    try:
        heard = len(connection.recv(1))
    except ConnectionResetError:
        heard = 0
    print(heard, flush=True)
)";
  ProcessOptions options{.program = "/usr/bin/python3", .arguments = {"-c", listener}};
  if (in_container) {
    options.program = "/usr/bin/unshare";
    options.arguments = {"--pid", "--fork", "--kill-child", "/usr/bin/python3", "-c", listener};
  } else {
    options.in_child = [] { Become(kImpostor); };
  }
  Process impostor(options);
  const std::string port = impostor.ReadLine();
  Node east("east",
            {.peers = {"west=127.0.0.1:" + port.substr(0, port.size() - 1)}, .config = kQuick});
  Json seen;
  WaitUntil("east has met the impostor", [&] {
    seen = east.Do({"node", "show", "west"});
    return seen.at("reason") == "ACCESS_DENIED";
  });
  CHECK(seen.at("state") == "DISCONNECTED");
  INFO(seen.dump());
  CHECK(seen.at("detail").get<std::string>().find(
            in_container ? "in other namespaces" : "uid 65533 of this machine answers") !=
        std::string::npos);
  CHECK(impostor.ReadLine() == "0\n");
}
}  // namespace impostor_test
