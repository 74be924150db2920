// The commands that list, show, make and remove.
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

TEST_CASE("buffers are created, listed, shown, summed and removed") {
  ProgramFixture onecopy;
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
  ProgramFixture onecopy;
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
  ProgramFixture onecopy;
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
  CHECK(Has(failed.out, "moved     0 B of 1000 B\n"));
  CHECK(Has(failed.out, "began     2023-11-14T22:13:20Z\n"));
  CHECK(Has(failed.out, "ended     2023-11-14T22:13:21Z, after 1 s\n"));
  CHECK_FALSE(Has(failed.out, "B/s"));
  CHECK_FALSE(Has(failed.out, "estimate"));
  CHECK_FALSE(Has(
      list.out.substr(list.out.find("t2 "), list.out.find("t1 ") - list.out.find("t2 ")), "B/s"));
  CHECK(onecopy({"transfer", "show", "t2", "--json"}).json()["error"]["reason"] == "PEER_DOWN");
  CHECK(onecopy({"transfer", "show", "t9"}).exit_status == 3);
  CHECK(Has(onecopy({"transfer", "watch", "t1"}).out, "3 copies"));
  CHECK(onecopy({"transfer", "watch", "t2"}).exit_status == 5);
  CHECK(onecopy({"transfer", "cancel", "t3"}).out == "transfer t3 is CANCELLED\n");
  CHECK(onecopy({"transfer", "cancel", "t1"}).out == "transfer t1 is SUCCEEDED\n");
  CHECK(onecopy({"transfer", "watch", "t3"}).exit_status == 130);
}

TEST_CASE("nodes are listed, shown, released, and told how much to log") {
  ProgramFixture onecopy;
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
  ProgramFixture onecopy;
  onecopy.daemon.SetFate(0, {.hold = true});
  REQUIRE(onecopy({"cp", "a", "west:b", "--detach"}).exit_status == 0);
  REQUIRE(onecopy({"cp", "a", "west:b"}).exit_status == 0);
  const Json list = onecopy({"top", "--json"}).json();
  REQUIRE(list.size() == 2);
  CHECK(list[0]["state"] == "RUNNING");  // what runs comes first
}

TEST_CASE("a session that the daemon has forgotten is a matter of permission") {
  ProgramFixture onecopy;
  onecopy.daemon.FailCalls(Status(Code::kUnauthenticated, reasons::kNoSession, "no session"));
  CHECK(onecopy({"buffer", "ls"}).exit_status == 4);
}

TEST_CASE("output that cannot be written is an error") {
  ProgramFixture onecopy;
  std::ostringstream out;
  std::ostringstream err;
  out.setstate(std::ios::badbit);
  CHECK(onecopy::cli::RunProgram({"--run-dir", onecopy.dir.path(), "buffer", "ls"}, out, err) == 1);
  CHECK(Has(err.str(), "standard output"));
}

TEST_CASE("probe prints a matrix, and a list for programs") {
  ProgramFixture onecopy;
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
