// Commands where no daemon serves.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

#include "tests/faults/serving.h"
#include "tests/support/catch.h"

namespace no_daemon_test {
namespace {

using namespace onecopy::testing;
using Words = std::vector<std::string>;

const std::vector<Words> kCommands = {
    {"cp", "a", "b"},
    {"cp", "-", "b"},
    {"cp", "a", "-"},
    {"cp", "a", "b", "--dry-run"},
    {"cp", "a", "b", "--detach"},
    {"explain", "a", "b"},
    {"buffer", "create", "a", "--size", "1"},
    {"buffer", "ls"},
    {"buffer", "show", "a"},
    {"buffer", "rm", "a"},
    {"buffer", "sum", "a"},
    {"grant", "add", "a", "--to", "1", "--read"},
    {"grant", "ls"},
    {"grant", "rm", "1"},
    {"transfer", "ls"},
    {"transfer", "show", "1"},
    {"transfer", "watch", "1"},
    {"transfer", "cancel", "1"},
    {"node", "ls"},
    {"node", "show"},
    {"node", "release", "cuda:0"},
    {"top"},
};

CommandResult RunIn(const std::string& run_dir, Words words) {
  words.insert(words.begin(), {"--run-dir", run_dir, "--json"});
  return RunCommand("onecopy", words);
}

void CheckUnreachable(const CommandResult& result, const std::string& run_dir,
                      const std::string& why) {
  CheckRefusedNaming(result, 5, "UNAVAILABLE", "DAEMON_UNREACHABLE", run_dir);
  INFO(result.message());
  CHECK(result.message().find(why) != std::string::npos);
  for (const char* way : {"onecopyd --run-dir", "--run-dir", "ONECOPY_RUN_DIR"}) {
    CHECK(RemedyOf(result).find(way) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("every command says which run directory has no daemon, and how to start one") {
  TempFolder folder;
  const std::string missing = folder / "missing";
  for (const Words& words : kCommands) {
    INFO(words[0] << " " << (words.size() > 1 ? words[1] : ""));
    CheckUnreachable(RunIn(missing, words), missing, "there is no attach.sock");
  }
  CheckUnreachable(RunIn(folder.path(), {"node", "ls"}), folder.path(), "there is no attach.sock");
  CHECK_FALSE(std::filesystem::exists(missing));
  // For people, on standard error.
  const CommandResult typed = RunCommand("onecopy", {"--run-dir", missing, "cp", "a", "-"});
  CHECK(typed.exit_status == 5);
  CHECK(typed.out == "");
  CHECK(typed.err.find(missing) != std::string::npos);
}

TEST_CASE("a daemon that was killed is told from one that never was") {
  Node east("east");
  east.Kill();
  for (const Words& words : kCommands) {
    INFO(words[0] << " " << (words.size() > 1 ? words[1] : ""));
    CheckUnreachable(RunIn(east.run_dir(), words), east.run_dir(),
                     "an earlier onecopyd left it behind");
  }
  east.Restart();
  CheckServes(east);
}

TEST_CASE("the run directory comes from the flag, else from the environment") {
  Node east("east");
  Node west("west");
  const auto shown = [](const Words& words, const std::string& variable) {
    TempFolder folder;
    Process process({.program = "onecopy",
                     .arguments = words,
                     .error_file = folder / "err",
                     .environment = {"ONECOPY_RUN_DIR=" + variable}});
    const Json shown = Json::parse(process.ReadAll());
    process.Wait();
    return shown.contains("error") ? shown["error"].value("message", "") : shown.value("name", "");
  };
  CHECK(shown({"--json", "node", "show"}, east.run_dir()) == "east");
  CHECK(shown({"--json", "--run-dir", west.run_dir(), "node", "show"}, east.run_dir()) == "west");
  CHECK(shown({"--json", "node", "show"}, "/nowhere/at/all").find("/nowhere/at/all") !=
        std::string::npos);
}

TEST_CASE("a run directory that no socket fits into is refused with its limit") {
  TempFolder folder;
  const CommandResult refused = RunIn(folder / std::string(107, 'n'), {"node", "ls"});
  CHECK(refused.exit_status == 2);
  CHECK(refused.message().find("107") != std::string::npos);
}

TEST_CASE("a client notices the end of its daemon, in calls that wait, too") {
  Node east("east");
  onecopy::Client client = east.Connect();
  const onecopy::HostBuffer window = Must(client.CreateHostBuffer("window", 4096));
  east.Kill();
  CheckFailed(client.ListBuffers().status(), onecopy::Code::kUnavailable, "DAEMON_UNREACHABLE");
  CheckFailed(client.CreateHostBuffer("other", 4096).status(), onecopy::Code::kUnavailable,
              "DAEMON_UNREACHABLE");
  CHECK(IsPayload(window.data(), 0, 1));  // the mapping is the client's own, and stays
  window.data()[4095] = std::byte{1};
  east.Restart();
  CheckServes(east);
}
}  // namespace no_daemon_test
