// Daemons that cannot start, and those that serve while another one fails to.
#include <grp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "tests/support/sanitized.h"

namespace startup_test {
namespace {

using namespace onecopy::testing;

struct Start {
  std::string name = "north";
  std::string listen = "127.0.0.1:0";
  std::string lanes = "127.0.0.1:0";
  std::string run_dir;
  std::vector<std::string> more = {};
  std::function<void()> in_child = {};
};

CommandResult Run(const Start& start) {
  std::vector<std::string> arguments = {"--name",           start.name,  "--listen",  start.listen,
                                        "--lanes",          start.lanes, "--run-dir", start.run_dir,
                                        "--metrics-listen", "off"};
  arguments.insert(arguments.end(), start.more.begin(), start.more.end());
  return RunCommand("onecopyd", arguments, {}, start.in_child);
}

// It ended with that status, said nothing on stdout, and all those words on stderr.
void CheckNotStarted(const Start& start, int exit_status, const std::vector<std::string>& words) {
  const CommandResult result = Run(start);
  INFO(result.out << result.err);
  CHECK(result.exit_status == exit_status);
  CHECK(result.out == "");
  CHECK(result.err.find("onecopyd: ") == 0);
  for (const std::string& word : words) {
    INFO(word);
    CHECK(result.err.find(word) != std::string::npos);
  }
}

void BecomeNobody() {
  if (::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(126);
}

std::function<void()> Limited(__rlimit_resource what, rlim_t most) {
  return [what, most] {
    const rlimit limit = {most, most};
    if (::setrlimit(what, &limit) != 0) ::_exit(126);
  };
}

// Serves, or says what it lacks: never by a signal, and never without a word.
void CheckServesOrSaysWhy(const std::function<void()>& in_child) {
  TempFolder folder;
  Process daemon(
      {.program = "onecopyd",
       .arguments = {"--name", "north", "--listen", "127.0.0.1:0", "--lanes", "127.0.0.1:0",
                     "--run-dir", folder / "run", "--metrics-listen", "off"},
       .error_file = folder / "err",
       .in_child = in_child});
  const std::string first = daemon.ReadLine();
  if (!first.empty()) {
    CHECK(first.find("ready ") == 0);
    return;  // and is ended
  }
  const int exit_status = daemon.Wait();
  const std::string said = ReadFile(folder / "err");
  INFO(said);
  CHECK(exit_status < 126);
  CHECK(said.find("onecopyd: ") != std::string::npos);
  CHECK(said.find("  try: ") != std::string::npos);
}

}  // namespace

TEST_CASE("a port that is taken is named, for peers and for lanes, and its owner serves on") {
  Node east("east");
  const Kept kept(east);
  TempFolder folder;
  // Not status 2, which is for what only an administrator can mend.
  CheckNotStarted({.listen = east.address(), .run_dir = folder / "run"}, 5,
                  {"--listen", east.address(), "EADDRINUSE", "try: "});
  CheckNotStarted({.lanes = east.address(), .run_dir = folder / "run"}, 5,
                  {"--lanes", east.address(), "EADDRINUSE", "try: "});
  kept.CheckUnchanged();
  CheckServes(east);
}

TEST_CASE("a second daemon in one run directory is refused, and the first serves on") {
  Node east("east");
  const Kept kept(east);
  CheckNotStarted({.run_dir = east.run_dir()}, 5,
                  {east.run_dir(), "pid " + std::to_string(east.process().pid()), "--run-dir"});
  kept.CheckUnchanged();
  CheckServes(east);
}

TEST_CASE("what a killed daemon left in its run directory is replaced") {
  Node east("east");
  east.Kill();
  REQUIRE(std::filesystem::exists(east.run_dir() + "/attach.sock"));
  east.Restart();
  CheckServes(east);
  CHECK(east.Stop() == 0);
  CHECK_FALSE(std::filesystem::exists(east.run_dir() + "/attach.sock"));
  CHECK_FALSE(std::filesystem::exists(east.run_dir() + "/api.sock"));
}

TEST_CASE("a run directory that cannot be one is refused with the way out") {
  TempFolder folder;
  WriteFile(folder / "file", "mine");
  const std::vector<std::string> remedy = {"--run-dir"};
  CheckNotStarted({.run_dir = folder / "file"}, 2, {folder / "file", "not a folder", "--run-dir"});
  CheckNotStarted({.run_dir = folder / "file/run"}, 3, {folder / "file/run", "--run-dir"});
  CHECK(ReadFile(folder / "file") == "mine");
  CheckNotStarted({.run_dir = folder / std::string(107, 'n')}, 2, {"107 bytes", "--run-dir"});
  // A file that is no socket, where a socket belongs, is not deleted.
  std::filesystem::create_directory(folder / "run");
  WriteFile(folder / "run/attach.sock", "mine");
  CheckNotStarted({.run_dir = folder / "run"}, 2, {folder / "run/attach.sock"});
  CHECK(ReadFile(folder / "run/attach.sock") == "mine");
  std::filesystem::create_directory(folder / "open");
  REQUIRE(::chmod((folder / "open").c_str(), 0777) == 0);
  CheckNotStarted({.run_dir = folder / "open"}, 4, {folder / "open", "all users", "--run-dir"});
}

TEST_CASE("a run directory of somebody else is refused") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root can start a daemon as another user");
  TempFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  std::filesystem::create_directory(folder / "roots");
  CheckNotStarted({.run_dir = folder / "roots", .in_child = BecomeNobody}, 4,
                  {folder / "roots", "--run-dir"});
  CheckNotStarted({.run_dir = folder / "new", .in_child = BecomeNobody}, 4,
                  {folder / "new", "--run-dir"});
  std::filesystem::create_directory(folder / "theirs");
  REQUIRE(::chown((folder / "theirs").c_str(), 65534, 65534) == 0);
  CheckNotStarted({.run_dir = folder / "theirs"}, 4, {folder / "theirs", "65534", "--run-dir"});
}

TEST_CASE("addresses that are none, or not this machine's, are refused by what was typed") {
  TempFolder folder;
  for (const char* wrong : {"127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000", ":7701",
                            "127.0.0.1:-1", "[::1:5", "", "a?b:5"}) {
    const std::string quoted = "\"" + std::string(wrong) + "\"";
    CheckNotStarted({.listen = wrong, .run_dir = folder / "run"}, 2, {"--listen", quoted});
    CheckNotStarted({.lanes = wrong, .run_dir = folder / "run"}, 2, {"--lanes", quoted});
    CheckNotStarted({.run_dir = folder / "run", .more = {"--peer", "x=" + std::string(wrong)}}, 2,
                    {"--peer", quoted});
  }
  CheckNotStarted({.listen = "0.0.0.0:0", .run_dir = folder / "run"}, 2, {"0.0.0.0", "[tls]"});
  WriteFile(folder / "insecure.toml", "insecure = true\n");
  const std::vector<std::string> insecure = {"--config", folder / "insecure.toml"};
  CheckNotStarted({.listen = "203.0.113.7:0", .run_dir = folder / "run", .more = insecure}, 5,
                  {"203.0.113.7", "EADDRNOTAVAIL"});
}

TEST_CASE("names and peers that cannot be are refused by what was typed") {
  TempFolder folder;
  for (const std::string& wrong : {std::string("a b"), std::string("-x"), std::string("a:b"),
                                   std::string(64, 'n'), std::string("\xC3\xA4")}) {
    CheckNotStarted({.name = wrong, .run_dir = folder / "run"}, 2, {wrong, "--name"});
  }
  const auto peer = [&](const std::string& typed, const std::vector<std::string>& words) {
    CheckNotStarted({.run_dir = folder / "run", .more = {"--peer", typed}}, 2, words);
  };
  peer("north=127.0.0.1:5", {"north", "cannot be its own peer"});
  peer("west", {"--peer west", "NAME=HOST:PORT"});
  peer("=127.0.0.1:5", {"--peer =127.0.0.1:5", "NAME=HOST:PORT"});
  peer("a b=127.0.0.1:5", {"--peer a b=", "NAME=HOST:PORT"});
  CheckNotStarted(
      {.run_dir = folder / "run", .more = {"--peer", "x=127.0.0.1:5", "--peer", "x=127.0.0.1:6"}},
      2, {"--peer x", "twice"});
  CHECK_FALSE(std::filesystem::exists(folder / "run"));  // nothing was begun
}

TEST_CASE("a daemon that may open few files says so, and how to let it") {
  if (kAddressSanitizer) ONECOPY_SKIP("UBSan needs descriptors of its own");
  TempFolder folder;
  for (const rlim_t most : {16, 20, 24, 32, 40, 48}) {
    CheckNotStarted({.run_dir = folder / "run", .in_child = Limited(RLIMIT_NOFILE, most)}, 9,
                    {"may open " + std::to_string(most) + " files", "LimitNOFILE="});
  }
  CheckServesOrSaysWhy(Limited(RLIMIT_NOFILE, 64));
}

TEST_CASE("a daemon with little address space, or short files, serves or says what it lacks") {
  if (kAddressSanitizer) ONECOPY_SKIP("AddressSanitizer takes terabytes of addresses");
  const rlim_t mebibytes = GENERATE(100, 150, 200, 300, 400, 500, 600, 800, 1000, 1500);
  CAPTURE(mebibytes);
  CheckServesOrSaysWhy(Limited(RLIMIT_AS, mebibytes << 20));
}

TEST_CASE("a daemon whose files may not grow serves or says what it lacks") {
  const rlim_t bytes = GENERATE(4096, 64 << 10, 1 << 20, 64 << 20);
  CAPTURE(bytes);
  CheckServesOrSaysWhy(Limited(RLIMIT_FSIZE, bytes));
}
}  // namespace startup_test
