// Command lines, run in this process against a fake daemon.
#include "client/cli/program.h"

#include <filesystem>
#include <sstream>

#include "client/cli/output/document.h"
#include "tests/unit/client/file_copy_fixture.h"
#include "transport/core/reasons.h"

using onecopy::Code;
using onecopy::Status;
using onecopy::cli::Json;
using onecopy::testing::Pattern;

namespace reasons = onecopy::reasons;

namespace {

struct Run {
  int exit_status;
  std::string out;
  std::string err;

  Json json() const { return Json::parse(out); }
};

Run Onecopy(const std::vector<std::string>& arguments) {
  std::ostringstream out;
  std::ostringstream err;
  const int exit_status = onecopy::cli::RunProgram(arguments, out, err);
  return {exit_status, out.str(), err.str()};
}

struct Fixture : onecopy::testing::FileCopyFixture {
  Fixture() {
    daemon.AddBuffer("east", "a", 1000);
    daemon.AddBuffer("west", "b", 2000);
  }

  Run operator()(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--run-dir", dir.path()});
    return Onecopy(arguments);
  }
};

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

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
  Fixture onecopy;
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
  Fixture onecopy;
  const Run run = onecopy({"cp", "a", "west:b", "--json", "--checksum", "--path", "tcp-*", "--link",
                           "tcp", "--at-most", "3", "--allow-emulated", "--deadline", "30s"});
  REQUIRE(run.exit_status == 0);
  CHECK(run.json()["state"] == "SUCCEEDED");
  CHECK(run.json()["copies"] == 3);
  CHECK(run.json()["checksum"]["verified"] == true);
  const auto request = onecopy.daemon.requests().at(0);
  CHECK(request.policy().path_glob() == "tcp-*");
  CHECK(request.policy().link() == "tcp");
  CHECK(request.policy().at_most_copies() == 3);
  CHECK(request.policy().allow_emulated());
  CHECK(request.deadline().seconds() == 30);
}

TEST_CASE("cp moves files into buffers and out of them") {
  Fixture onecopy;
  const std::string in = onecopy.Write("in", Pattern(1500));
  const Run there = onecopy({"cp", in, "west:b", "--json"});
  REQUIRE(there.exit_status == 0);
  CHECK(there.json()["source"] == in);
  CHECK(there.json()["destination"] == "west:b");
  CHECK(there.json()["copies"] == 4);
  CHECK(there.json()["steps"][0]["by"] == "client");
  CHECK(there.json()["transfers"].size() == 1);
  const Run back = onecopy({"cp", "west:b@0+1500", onecopy.dir / "out"});
  REQUIRE(back.exit_status == 0);
  CHECK(Has(back.out, "host -> file"));
  CHECK(onecopy.Read("out") == Pattern(1500));
}

TEST_CASE("a file on the client's own node is a file here, one on another node is not served") {
  Fixture onecopy;
  const std::string in = onecopy.Write("in", "x");
  CHECK(onecopy({"cp", "east:" + in, "west:b"}).exit_status == 0);
  const Run other = onecopy({"cp", "west:" + in, "a"});
  CHECK(other.exit_status == 7);
  CHECK(Has(other.err, "NOT_SERVED"));
  CHECK(Has(other.err, "copy it on that node"));
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
  Fixture onecopy;
  const auto before = std::filesystem::current_path();
  onecopy.Write("word", "x");
  std::filesystem::current_path(onecopy.dir.path());
  const Run source = onecopy({"cp", "word", "west:b"});
  const Run destination = onecopy({"cp", "a", "new-file"});
  const Run neither = onecopy({"cp", "missing", "west:b"});
  std::filesystem::current_path(before);
  CHECK(source.exit_status == 3);
  CHECK(Has(source.err, "there is a file of that name here: write ./word"));
  CHECK(destination.exit_status == 3);
  CHECK(Has(destination.err, "to write a file here: ./new-file"));
  CHECK(neither.exit_status == 3);
  CHECK_FALSE(Has(neither.err, "./missing"));
}

TEST_CASE("buffers may be called like commands") {
  Fixture onecopy;
  for (const std::string name : {"top", "cp", "node", "ls"}) {
    onecopy.daemon.AddBuffer("east", name, 10);
    CHECK(onecopy({"cp", name, "west:b"}).exit_status == 0);
    CHECK(onecopy({"buffer", "show", name}).exit_status == 0);
  }
}

TEST_CASE("the exit status tells why a transfer failed") {
  Fixture onecopy;
  const auto [code, exit_status] = GENERATE(table<Code, int>({{Code::kPermissionDenied, 4},
                                                              {Code::kUnavailable, 5},
                                                              {Code::kDataLoss, 6},
                                                              {Code::kDeadlineExceeded, 8},
                                                              {Code::kResourceExhausted, 9},
                                                              {Code::kAborted, 10},
                                                              {Code::kCancelled, 130},
                                                              {Code::kInternal, 1}}));
  onecopy.daemon.SetFate(0, {.fail = Status(code, "WHY", "it failed", "do something")});
  const Run run = onecopy({"cp", "a", "west:b"});
  CHECK(run.exit_status == exit_status);
  CHECK(run.out.empty());
  CHECK(run.err == "onecopy: transfer t1: it failed [WHY]\n  try: do something\n");
}

TEST_CASE("a policy that cannot be met exits 7 with every refusal") {
  Fixture onecopy;
  const Run people = onecopy({"cp", "a", "west:b", "--at-most", "1"});
  CHECK(people.exit_status == 7);
  CHECK(Has(people.err, "rdma-direct  NO_RDMA_DEVICE"));
  const Run explain = onecopy({"explain", "a", "west:b", "--at-most", "1"});
  CHECK(explain.exit_status == 7);
  CHECK(Has(explain.out, "path      none"));
  CHECK(Has(explain.out, "rdma-direct  NO_RDMA_DEVICE"));
  CHECK_FALSE(Has(explain.err, "NO_RDMA_DEVICE"));
  const Run json = onecopy({"explain", "a", "west:b", "--at-most", "1", "--json"});
  CHECK(json.exit_status == 7);
  CHECK(json.json()["error"]["refused"].size() == 2);
}

TEST_CASE("explain and a dry run show the path and move nothing") {
  Fixture onecopy;
  const std::string in = onecopy.Write("in", "x");
  const Run explain = onecopy({"explain", "a", "west:b"});
  CHECK(explain.exit_status == 0);
  CHECK(Has(explain.out, "why no other path\n    rdma-direct  NO_RDMA_DEVICE"));
  const Run file = onecopy({"explain", in, "west:b", "--json"});
  CHECK(file.json()["copies"] == 4);
  CHECK(onecopy({"cp", "a", "west:b", "--dry-run", "--json"}).json()["path"] == "tcp-direct");
  CHECK(onecopy({"cp", "west:b", onecopy.dir / "out", "--dry-run"}).exit_status == 0);
  CHECK_FALSE(std::filesystem::exists(onecopy.dir / "out"));
  CHECK(onecopy.daemon.transfers().empty());
}

TEST_CASE("a detached transfer is named and goes on") {
  Fixture onecopy;
  onecopy.daemon.SetFate(0, {.hold = true});
  CHECK(onecopy({"cp", "a", "west:b", "--detach", "--quiet"}).out == "t1\n");
  CHECK(onecopy.daemon.transfers().at(0).state() == onecopy::v1::RUNNING);
  const Run json = onecopy({"cp", "a", "west:b", "--detach", "--json"});
  CHECK(json.json()["id"] == "t2");
  const Run file = onecopy({"cp", onecopy.Write("in", "x"), "west:b", "--detach"});
  CHECK(file.exit_status == 2);
  CHECK(Has(file.err, "two buffers"));
  CHECK(onecopy({"cp", "a", "west:b", "--detach", "--dry-run"}).exit_status == 2);
}

TEST_CASE("buffers are created, listed, shown, summed and removed") {
  Fixture onecopy;
  const Run made = onecopy({"buffer", "create", "x", "--size", "64KiB", "--memory", "cuda:0"});
  CHECK(made.exit_status == 0);
  CHECK(made.out == "created east:x, 64 KiB of cuda on GPU-5f\n");
  CHECK(onecopy({"buffer", "create", "x", "--size", "1"}).exit_status == 2);
  const Run list = onecopy({"buffer", "ls"});
  CHECK(Has(list.out, "NAME  NODE    SIZE  MEMORY  DEVICE  OWNER      BELONGS TO  TRANSFERS\n"));
  CHECK(Has(list.out, "x     east  64 KiB  cuda    GPU-5f  1000@east  daemon"));
  CHECK(onecopy({"buffer", "ls", "west", "--json"}).json().size() == 1);
  CHECK(onecopy({"buffer", "ls", "nobody", "--json"}).out == "[]\n");
  CHECK(Has(onecopy({"buffer", "show", "x"}).out, "size        64 KiB (65536 bytes)"));
  CHECK(onecopy({"buffer", "show", "west:b", "--json"}).json()["bytes"] == 2000);
  CHECK(onecopy({"buffer", "sum", "x@0+10"}).out == "00112233445566778899aabbccddeeff  x@0+10\n");
  CHECK(onecopy({"buffer", "sum", "x", "--json"}).json()["algorithm"] == "xxh3-128");
  CHECK(onecopy({"buffer", "rm", "x", "a"}).out == "removed east:x\nremoved east:a\n");
  CHECK(onecopy({"buffer", "rm", "x"}).exit_status == 3);
  const Run remote = onecopy({"buffer", "rm", "west:b"});
  CHECK(remote.exit_status == 7);
  CHECK(Has(remote.err, "run this command there"));
}

TEST_CASE("grants are given, listed and taken back") {
  Fixture onecopy;
  const Run made =
      onecopy({"grant", "add", "a@10+20", "--to", "1000@west", "--read", "--write", "--for", "1h"});
  CHECK(made.exit_status == 0);
  CHECK(made.out == "grant g1: 1000@west may read, write a@10+20 until 2023-11-14T23:13:20Z\n");
  const Run list = onecopy({"grant", "ls", "a", "--json"});
  REQUIRE(list.json().size() == 1);
  CHECK(list.json()[0]["offset_bytes"] == 10);
  CHECK(Has(onecopy({"grant", "ls"}).out, "1000@west  read, write"));
  CHECK(onecopy({"grant", "rm", "g1", "--json"}).json()["removed"] == Json::array({"g1"}));
  CHECK(onecopy({"grant", "rm", "g1"}).exit_status == 3);
  CHECK(onecopy({"grant", "ls", "--json"}).out == "[]\n");
}

TEST_CASE("transfers are listed, shown, watched and cancelled") {
  Fixture onecopy;
  onecopy.daemon.SetFate(1, {.fail = Status(Code::kUnavailable, reasons::kPeerDown, "west went")});
  onecopy.daemon.SetFate(2, {.hold = true});
  CHECK(onecopy({"transfer", "ls", "--json"}).out == "[]\n");
  for (int i = 0; i < 3; ++i) REQUIRE(onecopy({"cp", "a", "west:b", "--detach"}).exit_status == 0);
  const Run list = onecopy({"transfer", "ls"});
  CHECK(Has(list.out, "t2  FAILED PEER_DOWN"));
  CHECK(Has(list.out, "t3  RUNNING"));
  CHECK(onecopy({"transfer", "ls", "--json"}).json()[0]["id"] == "t3");
  CHECK(Has(onecopy({"transfer", "show", "t1"}).out, "transfer t1, SUCCEEDED"));
  const Run failed = onecopy({"transfer", "show", "t2"});
  CHECK(failed.exit_status == 0);
  CHECK(Has(failed.out, "onecopy: west went [PEER_DOWN]"));
  CHECK(onecopy({"transfer", "show", "t2", "--json"}).json()["error"]["reason"] == "PEER_DOWN");
  CHECK(onecopy({"transfer", "show", "t9"}).exit_status == 3);
  CHECK(Has(onecopy({"transfer", "watch", "t1"}).out, "3 copies"));
  CHECK(onecopy({"transfer", "watch", "t2"}).exit_status == 5);
  CHECK(onecopy({"transfer", "cancel", "t3"}).out == "transfer t3 is CANCELLED\n");
  CHECK(onecopy({"transfer", "cancel", "t1"}).out == "transfer t1 is SUCCEEDED\n");
  CHECK(onecopy({"transfer", "watch", "t3"}).exit_status == 130);
}

TEST_CASE("nodes are listed, shown, released, and told how much to log") {
  Fixture onecopy;
  const Run list = onecopy({"node", "ls"});
  CHECK(Has(list.out, "east (here)  CONNECTED"));
  CHECK(Has(list.out, "PEER_DOWN: connection refused"));
  CHECK(onecopy({"node", "ls", "--json"}).json().size() == 2);
  const Run show = onecopy({"node", "show"});
  CHECK(Has(show.out, "not usable: DRIVER_TOO_OLD, driver 12.2"));
  CHECK(Has(show.out, "try: install driver 12.4 or newer"));
  const Json node = onecopy({"node", "show", "west", "--json"}).json();
  CHECK(node["name"] == "west");
  CHECK(node["memories"][0]["viability"]["reason"] == "DRIVER_TOO_OLD");
  CHECK(node["links"][0]["nics"][0]["memories"][0]["kind"] == "host");
  CHECK(node["stores"][0]["name"] == "posix");
  CHECK(onecopy({"node", "release", "cuda:0"}).exit_status == 0);
  CHECK(onecopy({"node", "release", "cuda:7"}).exit_status == 3);
  CHECK(onecopy({"node", "log-level", "debug"}).out == "log level debug, was info\n");
}

TEST_CASE("top prints once where nobody watches") {
  Fixture onecopy;
  onecopy.daemon.SetFate(0, {.hold = true});
  REQUIRE(onecopy({"cp", "a", "west:b", "--detach"}).exit_status == 0);
  REQUIRE(onecopy({"cp", "a", "west:b"}).exit_status == 0);
  const Json list = onecopy({"top", "--json"}).json();
  REQUIRE(list.size() == 2);
  CHECK(list[0]["state"] == "RUNNING");  // what runs comes first
}

TEST_CASE("a session that the daemon has forgotten is a matter of permission") {
  Fixture onecopy;
  onecopy.daemon.FailCalls(Status(Code::kUnauthenticated, reasons::kNoSession, "no session"));
  CHECK(onecopy({"buffer", "ls"}).exit_status == 4);
}

TEST_CASE("output that cannot be written is an error") {
  Fixture onecopy;
  std::ostringstream out;
  std::ostringstream err;
  out.setstate(std::ios::badbit);
  CHECK(onecopy::cli::RunProgram({"--run-dir", onecopy.dir.path(), "buffer", "ls"}, out, err) == 1);
  CHECK(Has(err.str(), "standard output"));
}

TEST_CASE("probe prints a matrix, and a list for programs") {
  Fixture onecopy;
  const Run people = onecopy({"probe", "west"});
  CHECK(people.exit_status == 0);
  CHECK(Has(people.out, "WHY NOT"));
  CHECK(Has(people.out, "47 GB/s"));
  CHECK(Has(people.out, "3 us"));
  CHECK(Has(people.out, "mlx5_0 > mlx5_1"));
  CHECK(Has(people.out, "NIC_UNREACHABLE, transport retry counter exceeded"));
  const Run programs = onecopy({"--json", "probe"});
  CHECK(programs.exit_status == 0);
  REQUIRE(programs.json().is_array());
  CHECK(programs.json()[0]["link"] == "verbs");
  CHECK(programs.json()[0]["bytes_per_second"] == 47e9);
  CHECK(programs.json()[1]["viability"]["reason"] == "NIC_UNREACHABLE");
}
