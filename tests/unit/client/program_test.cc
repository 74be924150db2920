// The command line as a whole, and what moves bytes: cp and explain.
#include <filesystem>

#include "onecopy/reasons.h"
#include "tests/unit/client/program_fixture.h"

using onecopy::Code;
using onecopy::Status;
using onecopy::cli::Json;
using onecopy::testing::Has;
using onecopy::testing::Onecopy;
using onecopy::testing::Pattern;
using onecopy::testing::ProgramFixture;
using onecopy::testing::Run;

namespace reasons = onecopy::reasons;

TEST_CASE("help and version are printed and are successes") {
  CHECK(Onecopy({"--version"}).out == "onecopy 0.1.0\n");
  for (const auto& command : std::vector<std::vector<std::string>>{{},
                                                                   {"cp"},
                                                                   {"explain"},
                                                                   {"buffer"},
                                                                   {"buffer", "create"},
                                                                   {"buffer", "ls"},
                                                                   {"buffer", "show"},
                                                                   {"buffer", "rm"},
                                                                   {"buffer", "sum"},
                                                                   {"grant", "add"},
                                                                   {"grant", "ls"},
                                                                   {"grant", "rm"},
                                                                   {"transfer", "ls"},
                                                                   {"transfer", "show"},
                                                                   {"transfer", "watch"},
                                                                   {"transfer", "cancel"},
                                                                   {"node", "ls"},
                                                                   {"node", "show"},
                                                                   {"node", "release"},
                                                                   {"node", "log-level"},
                                                                   {"top"}}) {
    std::vector<std::string> arguments = command;
    arguments.emplace_back("--help");
    const Run run = Onecopy(arguments);
    CHECK(run.exit_status == 0);
    CHECK(Has(run.out, "Usage: onecopy"));
    CHECK(run.err.empty());
    if (command.size() != 1 || command[0] == "cp") CHECK(Has(run.out, "Example"));
  }
}

TEST_CASE("command lines that cannot be read fail with 2 and say where help is") {
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {},
           {"unknown"},
           {"cp"},
           {"cp", "a"},
           {"cp", "a", "b", "c"},
           {"cp", "a", "b", "--unknown"},
           {"cp", "a", "b", "--at-most", "x"},
           {"cp", "a", "b", "--at-most", "-1"},
           {"cp", "a", "b", "--deadline", "soon"},
           {"buffer"},
           {"buffer", "create", "x"},
           {"buffer", "create", "x", "--size", "1XB"},
           {"buffer", "create", "x", "--size", "-1"},
           {"buffer", "create", "no/name", "--size", "1"},
           {"buffer", "show", "a@5"},
           {"buffer", "rm", "./a"},
           {"grant", "add", "a", "--to", "1000"},
           {"grant", "add", "a", "--to", "1000", "--read", "--for", "0s"},
           {"transfer", "show"}}) {
    INFO(Json(arguments).dump());
    const Run run = Onecopy(arguments);
    CHECK(run.exit_status == 2);
    CHECK(run.out.empty());
    CHECK(run.err.find("onecopy: ") == 0);
    CHECK(Has(run.err, "  try: "));
  }
  CHECK(Has(Onecopy({"cp", "a"}).err, "`onecopy cp --help`"));
  CHECK(Has(Onecopy({"buffer", "create"}).err, "`onecopy buffer create --help`"));
}

TEST_CASE("wrong words are named") {
  CHECK(Has(Onecopy({"cp", "a"}).err, "cp takes one source and one destination [BAD_ARGUMENT]"));
  CHECK(Has(Onecopy({"cp"}).err, "cp takes one source and one destination"));
  CHECK(Has(Onecopy({"explain", "a", "b", "c"}).err,
            "explain takes one source and one destination, and \"c\" is one too many"));
  CHECK(Has(Onecopy({"cp", "a", "b", "--unknown"}).err,
            "\"--unknown\" is not an option of `onecopy cp`"));
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"nonsense"}, {"nonsense", "--help"}, {"--help", "nonsense"}}) {
    const Run run = Onecopy(arguments);
    CHECK(run.exit_status == 2);
    CHECK(run.out.empty());
    CHECK(Has(run.err, "\"nonsense\" is not a command of `onecopy`"));
  }
  const Run nested = Onecopy({"buffer", "nonsense", "--help"});
  CHECK(nested.exit_status == 2);
  CHECK(Has(nested.err, "\"nonsense\" is not a command of `onecopy buffer`"));
}

TEST_CASE("a mistyped word is answered with the one that was meant") {
  const auto meant = [](const std::vector<std::string>& typed, const std::string& word) {
    INFO(Json(typed).dump());
    const Run run = Onecopy(typed);
    CHECK(run.exit_status == 2);
    CHECK(Has(run.err, "did you mean " + word + "? "));
  };
  meant({"buffer", "list"}, "`onecopy buffer ls`");
  meant({"buffer", "creat"}, "`onecopy buffer create`");
  meant({"copy", "a", "b"}, "`onecopy cp`");
  meant({"grant", "delete", "1"}, "`onecopy grant rm`");
  meant({"bufffr", "ls"}, "`onecopy buffer`");
  meant({"cp", "a", "b", "--cheksum"}, "--checksum");
  meant({"cp", "a", "b", "--jsn"}, "--json");
  meant({"buffer", "create", "a", "--size", "64M"}, "64MiB or 64MB");
  meant({"buffer", "create", "a", "--size", "64mib"}, "64MiB");
  CHECK_FALSE(Has(Onecopy({"nonsense"}).err, "did you mean"));
  CHECK_FALSE(Has(Onecopy({"cp", "a", "b", "--nonsense"}).err, "did you mean"));
  CHECK_FALSE(Has(Onecopy({"buffer", "create", "a", "--size", "64XB"}).err, "did you mean"));
}

TEST_CASE("the help of a group of commands has no examples of others") {
  for (const char* group : {"buffer", "grant", "transfer", "node"}) {
    CHECK_FALSE(Has(Onecopy({group, "--help"}).out, "onecopy cp"));
  }
  CHECK(Has(Onecopy({"--help"}).out, "onecopy cp"));
}

TEST_CASE("with --json every error is a document on standard output") {
  const Run run = Onecopy({"cp", "a", "--json"});
  CHECK(run.exit_status == 2);
  CHECK(run.err.empty());
  CHECK(run.json()["error"]["code"] == "INVALID_ARGUMENT");
  const Run late = Onecopy({"--json", "--run-dir", "/nonexistent", "buffer", "ls"});
  CHECK(late.exit_status == 5);
  CHECK(late.json()["error"]["reason"] == "DAEMON_UNREACHABLE");
}

TEST_CASE("without a daemon the error names where it was looked for and how to start one") {
  const Run run = Onecopy({"--run-dir", "/nonexistent", "buffer", "ls"});
  CHECK(run.exit_status == 5);
  CHECK(Has(run.err, "/nonexistent"));
  CHECK(Has(run.err, "onecopyd"));
}

TEST_CASE("cp moves a buffer and prints the receipt") {
  ProgramFixture onecopy;
  onecopy.daemon.SetBytes("east", "a", Pattern(1000));
  const Run run = onecopy({"cp", "a", "west:b@100"});
  CHECK(run.exit_status == 0);
  CHECK(run.err.empty());
  CHECK(Has(run.out, "east:a@0+1000 -> west:b@100+1000\n"));
  CHECK(Has(run.out, "tcp-direct, 3 copies, link tcp"));
  CHECK(onecopy.daemon.Bytes("west", "b").substr(100, 1000) == Pattern(1000));
  CHECK(onecopy({"cp", "a", "west:b", "--quiet"}).out.empty());
}

TEST_CASE("cp with --json prints the receipt as one document, options after the ends included") {
  ProgramFixture onecopy;
  const Run run = onecopy({"cp", "a", "west:b", "--json", "--checksum", "--path", "tcp-*", "--link",
                           "tcp", "--at-most", "3", "--allow-emulated", "--deadline", "30s"});
  REQUIRE(run.exit_status == 0);
  CHECK(run.json()["state"] == "SUCCEEDED");
  CHECK(run.json()["copies"] == 3);
  CHECK(run.json()["checksum"]["verified"] == true);
}

TEST_CASE("each option of cp counts") {
  ProgramFixture onecopy;
  for (const std::vector<std::string>& refused :
       {std::vector<std::string>{"--path", "rdma-*"}, {"--link", "verbs"}, {"--at-most", "2"}}) {
    std::vector<std::string> words = {"cp", "a", "west:b"};
    words.insert(words.end(), refused.begin(), refused.end());
    const Run run = onecopy(words);
    CHECK(run.exit_status == 7);
    CHECK(Has(run.err, "POLICY_UNMET"));
  }
  onecopy.daemon.Hold();
  CHECK(onecopy({"cp", "a", "west:b", "--deadline", "50ms"}).exit_status == 8);
}

TEST_CASE("a deadline holds for all that cp asks, also where a node does not answer") {
  ProgramFixture onecopy;
  const std::string in = onecopy.Write("in", "some bytes");
  std::filesystem::create_directory(onecopy.dir / "folder");
  onecopy.Write("folder/file", "some bytes");
  const auto ends = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"cp", "--deadline", "300ms"});
    INFO(Json(words).dump());
    const Run run = onecopy(words);
    CHECK(run.exit_status == 8);
    CHECK(Has(run.err, "DEADLINE"));
    return run.err;
  };
  onecopy.daemon.cluster().HangCalls("CreateBuffer");
  CHECK(Has(ends({in, "west:new", "--create"}), "may be created nevertheless"));
  ends({"a", "west:new", "--create"});
  ends({in, "west:", "--create"});
  ends({onecopy.dir / "folder", "west:new", "--create"});
  ends({"a", "{west,east}:new", "--create"});
  onecopy.daemon.cluster().HangCalls("GetBuffer");
  ends({"west:b", "new", "--create"});
  ends({"west:b", onecopy.dir / "folder"});
  ends({"west:b", "{west,east}:new", "--create"});
}

TEST_CASE("a deadline holds for the message that cp sends after the bytes") {
  ProgramFixture onecopy;
  const std::string in = onecopy.Write("in", "some bytes");
  onecopy.daemon.cluster().HangCalls("SendMessage");
  const Run run = onecopy({"cp", in, "west:b", "--message", "hello", "--deadline", "2s"});
  CHECK(run.exit_status == 8);
  CHECK(Has(run.err, "the data was transferred"));
}

TEST_CASE("cp moves files into buffers and out of them") {
  ProgramFixture onecopy;
  const std::string in = onecopy.Write("in", Pattern(1500));
  const Run there = onecopy({"cp", in, "west:b", "--json"});
  REQUIRE(there.exit_status == 0);
  CHECK(there.json()["source"] == in);
  CHECK(there.json()["destination"] == "west:b");
  CHECK(there.json()["copies"] == 4);
  CHECK(there.json()["steps"][0]["by"] == "client");
  CHECK(there.json()["parts"] == 1);
  const Run back = onecopy({"cp", "west:b@0+1500", onecopy.dir / "out"});
  REQUIRE(back.exit_status == 0);
  CHECK(Has(back.out, "host -> file"));
  CHECK(onecopy.Read("out") == Pattern(1500));
}

TEST_CASE("a file on the client's own node is a file here, one on another node is that node's") {
  ProgramFixture onecopy;
  const std::string in = onecopy.Write("in", "x");
  CHECK(onecopy({"cp", "east:" + in, "west:b"}).exit_status == 0);
  const Run read = onecopy({"cp", "west:" + in, "a"});
  CHECK(read.exit_status == 4);
  CHECK(Has(read.err, "ACCESS_DENIED"));
  CHECK(Has(read.err, "[exports.NAME]"));
  const Run written = onecopy({"cp", "a", "west:" + in});
  CHECK(written.exit_status == 4);
  CHECK(Has(written.err, "ACCESS_DENIED"));
  CHECK(Has(written.err, "for writing"));
  CHECK(Has(written.err, "[exports.NAME]"));
  CHECK(onecopy.Read("in") == "x");
  CHECK(onecopy({"cp", "east:" + in, "./x"}).exit_status == 2);
}

TEST_CASE("two files, and standard input with a file, are refused with what to use instead") {
  for (const auto& ends : std::vector<std::pair<std::string, std::string>>{
           {"./a", "/b"}, {"-", "./b"}, {"./a", "-"}, {"-", "-"}}) {
    const Run run = Onecopy({"cp", ends.first, ends.second});
    CHECK(run.exit_status == 2);
    CHECK(Has(run.err, "cp(1)"));
  }
}

TEST_CASE("a word that is no buffer but names a file suggests how to name it") {
  ProgramFixture onecopy;
  const auto before = std::filesystem::current_path();
  onecopy.Write("word", "x");
  std::filesystem::current_path(onecopy.dir.path());
  const Run source = onecopy({"cp", "word", "west:b"});
  const Run destination = onecopy({"cp", "a", "new-file"});
  const Run neither = onecopy({"cp", "missing", "west:b"});
  std::filesystem::current_path(before);
  CHECK(source.exit_status == 3);
  CHECK(Has(source.err, "a file of that name exists here: write ./word"));
  CHECK(destination.exit_status == 3);
  CHECK(Has(destination.err, "to write a file here: ./new-file"));
  CHECK(neither.exit_status == 3);
  CHECK_FALSE(Has(neither.err, "./missing"));
}

TEST_CASE("buffers may be called like commands") {
  ProgramFixture onecopy;
  for (const std::string name : {"top", "cp", "node", "ls"}) {
    onecopy.daemon.AddBuffer("east", name, 10);
    CHECK(onecopy({"cp", name, "west:b"}).exit_status == 0);
    CHECK(onecopy({"buffer", "show", name}).exit_status == 0);
  }
}

TEST_CASE("the exit status tells why a transfer failed") {
  ProgramFixture onecopy;
  const auto [code, exit_status] = GENERATE(table<Code, int>({{Code::kPermissionDenied, 4},
                                                              {Code::kUnavailable, 5},
                                                              {Code::kDataLoss, 6},
                                                              {Code::kDeadlineExceeded, 8},
                                                              {Code::kResourceExhausted, 9},
                                                              {Code::kAborted, 10},
                                                              {Code::kCancelled, 130},
                                                              {Code::kInternal, 1}}));
  onecopy.daemon.FailTransfers(Status(code, "WHY", "it failed", "do something"));
  const Run run = onecopy({"cp", "a", "west:b"});
  CHECK(run.exit_status == exit_status);
  CHECK(run.out.empty());
  const std::string id = onecopy.daemon.transfers().at(0).id.str();
  CHECK(run.err == "onecopy: transfer " + id + ": it failed [WHY]\n  try: do something\n");
}

TEST_CASE("a policy that cannot be met exits 7 with every refusal") {
  ProgramFixture onecopy;
  const Run people = onecopy({"cp", "a", "west:b", "--at-most", "1"});
  CHECK(people.exit_status == 7);
  CHECK(Has(people.err, "tcp-direct  "));
  CHECK(Has(people.err, "POLICY"));
  const Run explain = onecopy({"explain", "a", "west:b", "--at-most", "1"});
  CHECK(explain.exit_status == 7);
  CHECK(Has(explain.out, "path      none"));
  CHECK(Has(explain.out, "tcp-direct  "));
  CHECK_FALSE(Has(explain.err, "tcp-direct  "));
  const Run json = onecopy({"explain", "a", "west:b", "--at-most", "1", "--json"});
  CHECK(json.exit_status == 7);
  CHECK(json.json()["error"]["refused"].size() >= 2);
}

TEST_CASE("explain and a dry run show the path and move nothing") {
  ProgramFixture onecopy;
  const std::string in = onecopy.Write("in", "x");
  const Run explain = onecopy({"explain", "a", "west:b"});
  CHECK(explain.exit_status == 0);
  CHECK(Has(explain.out, "path      tcp-direct"));
  CHECK(Has(explain.out, "why no other path\n    "));
  const Run file = onecopy({"explain", in, "west:b", "--json"});
  CHECK(file.json()["copies"] == 4);
  CHECK(onecopy({"cp", "a", "west:b", "--dry-run", "--json"}).json()["path"] == "tcp-direct");
  CHECK(onecopy({"cp", "west:b", onecopy.dir / "out", "--dry-run"}).exit_status == 0);
  CHECK_FALSE(std::filesystem::exists(onecopy.dir / "out"));
  CHECK(onecopy.daemon.transfers().empty());
}

TEST_CASE("a detached transfer is named and goes on") {
  ProgramFixture onecopy;
  onecopy.daemon.Hold();
  const std::string id = onecopy.Detach();
  onecopy.daemon.AwaitRunning(1);
  CHECK(onecopy.daemon.transfers().at(0).id.str() == id);
  const Run json = onecopy({"cp", "a", "west:b", "--detach", "--json"});
  CHECK(json.json()["id"] == onecopy.daemon.transfers().at(1).id.str());
  const Run shown = onecopy({"cp", "a", "west:b", "--detach"});  // for id=$(…)
  CHECK(shown.out == onecopy.daemon.transfers().at(2).id.str() + "\n");
  CHECK(Has(shown.err, "onecopy transfer watch " + onecopy.daemon.transfers().at(2).id.str()));
  const Run file = onecopy({"cp", onecopy.Write("in", "x"), "west:b", "--detach"});
  CHECK(file.exit_status == 2);
  CHECK(Has(file.err, "two buffers"));
  CHECK(onecopy({"cp", "a", "west:b", "--detach", "--dry-run"}).exit_status == 2);
}
