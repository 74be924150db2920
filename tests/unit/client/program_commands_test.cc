// The commands that list, show, make and remove.
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "onecopy/reasons.h"
#include "tests/unit/client/gpus.h"
#include "tests/unit/client/program_fixture.h"
#include "transport/digest/tree.h"

using onecopy::Code;
using onecopy::Status;
using onecopy::cli::Json;
using onecopy::testing::Has;
using onecopy::testing::NodePlan;
using onecopy::testing::Onecopy;
using onecopy::testing::Pattern;
using onecopy::testing::ProgramFixture;
using onecopy::testing::Run;
using onecopy::testing::WithGpus;

namespace reasons = onecopy::reasons;

TEST_CASE("buffers are created, listed, shown, summed and removed") {
  ProgramFixture onecopy(WithGpus());
  const Run made = onecopy({"buffer", "create", "x", "--size", "64KiB", "--memory", "cuda:0"});
  CHECK(made.exit_status == 0);
  const std::string gpu = onecopy.daemon.buffers().back().device;
  CHECK(made.out == "created east:x, 64 KiB of cuda on " + gpu + "\n");
  CHECK(onecopy({"buffer", "create", "x", "--size", "1"}).exit_status == 2);
  const Run list = onecopy({"buffer", "ls"});
  for (const char* title :
       {"NAME", "NODE", "SIZE", "MEMORY", "DEVICE", "OWNER", "BELONGS TO", "TRANSFERS\n"}) {
    CHECK(Has(list.out, title));
  }
  const std::string owner = std::to_string(::geteuid()) + "@east";
  CHECK(Has(list.out, "x     east  64 KiB  -      cuda    " + gpu + "  " + owner + "  daemon"));
  CHECK(onecopy({"buffer", "ls", "west", "--json"}).json().size() == 1);
  CHECK(onecopy({"buffer", "ls", "nobody"}).exit_status == 3);
  CHECK(Has(onecopy({"buffer", "show", "x"}).out, "size        64 KiB (65536 bytes)"));
  CHECK(onecopy({"buffer", "show", "west:b", "--json"}).json()["bytes"] == 2000);
  const std::string zeroes(10, '\0');
  CHECK(onecopy({"buffer", "sum", "x@0+10"}).out ==
        onecopy::digest::HexOf(zeroes.data(), 10) + "  x@0+10\n");
  CHECK(onecopy({"buffer", "sum", "x@0+10", "--tree"}).out ==
        onecopy::digest::TreeHexOf(zeroes.data(), 10) + "  x@0+10\n");
  const auto sum = onecopy({"buffer", "sum", "x@0+10", "--json"}).json();
  CHECK(sum["algorithm"] == "xxh3-128");
  CHECK(sum["tree"] == onecopy::digest::TreeHexOf(zeroes.data(), 10));
  CHECK(onecopy({"buffer", "rm", "x", "a"}).out == "removed east:x\nremoved east:a\n");
  CHECK(onecopy({"buffer", "rm", "x"}).exit_status == 3);
  CHECK(onecopy({"buffer", "create", "west:y", "--size", "10"}).out ==
        "created west:y, 10 B of host\n");
  CHECK(onecopy({"buffer", "rm", "west:y"}).out == "removed west:y\n");
  CHECK(onecopy({"buffer", "rm", "west:y"}).exit_status == 3);
}

TEST_CASE("grants are given, listed and taken back") {
  ProgramFixture onecopy;
  const Run made =
      onecopy({"grant", "add", "a@10+20", "--to", "1000@west", "--read", "--write", "--for", "1h"});
  CHECK(made.exit_status == 0);
  REQUIRE(made.out.starts_with("grant "));
  const std::string id = made.out.substr(6, made.out.find(':') - 6);
  CHECK(made.out.starts_with("grant " + id + ": 1000@west may read, write a@10+20 until 20"));
  CHECK(made.out.ends_with("Z\n"));
  const Run list = onecopy({"grant", "ls", "a", "--json"});
  REQUIRE(list.json().size() == 1);
  CHECK(list.json()[0]["offset_bytes"] == 10);
  CHECK(Has(onecopy({"grant", "ls"}).out, "1000@west  read, write"));
  CHECK(onecopy({"grant", "rm", id, "--json"}).json()["removed"] == Json::array({id}));
  CHECK(onecopy({"grant", "rm", id}).exit_status == 3);
  CHECK(onecopy({"grant", "ls", "--json"}).out == "[]\n");
}

TEST_CASE("transfers are listed, shown, watched and cancelled") {
  ProgramFixture onecopy;
  CHECK(onecopy({"transfer", "ls", "--json"}).out == "[]\n");
  const std::string t1 = onecopy.Detach();
  CHECK(onecopy({"transfer", "watch", t1}).exit_status == 0);
  onecopy.daemon.FailTransfers(Status(Code::kUnavailable, reasons::kDraining, "east ends"));
  const std::string t2 = onecopy.Detach();
  CHECK(onecopy({"transfer", "watch", t2}).exit_status == 5);
  onecopy.daemon.cluster().AllowCalls("Prepare");
  onecopy.daemon.Hold();
  const std::string t3 = onecopy.Detach();
  onecopy.daemon.AwaitRunning(1);
  const Run list = onecopy({"transfer", "ls"});
  CHECK(Has(list.out, t2 + "  FAILED DRAINING"));
  CHECK(Has(list.out, t3 + "  RUNNING"));
  CHECK(onecopy({"transfer", "ls", "--json"}).json()[0]["id"] == t3);
  CHECK(Has(onecopy({"transfer", "show", t1}).out, "transfer " + t1 + ", SUCCEEDED"));
  const Run failed = onecopy({"transfer", "show", t2});
  CHECK(failed.exit_status == 0);
  CHECK(Has(failed.out, "onecopy: east ends [DRAINING]"));
  CHECK(Has(failed.out, "moved     0 B of 1000 B\n"));
  CHECK(Has(failed.out, "began     20"));
  CHECK(Has(failed.out, "ended     20"));
  CHECK(Has(failed.out, "Z, after "));
  CHECK_FALSE(Has(failed.out, "B/s"));
  CHECK_FALSE(Has(failed.out, "estimate"));
  CHECK_FALSE(Has(
      list.out.substr(list.out.find(t2 + " "), list.out.find(t1 + " ") - list.out.find(t2 + " ")),
      "B/s"));
  CHECK(onecopy({"transfer", "show", t2, "--json"}).json()["error"]["reason"] == "DRAINING");
  CHECK(onecopy({"transfer", "show", "t9"}).exit_status == 3);
  CHECK(Has(onecopy({"transfer", "watch", t1}).out, "3 copies"));
  CHECK(Has(onecopy({"transfer", "cancel", t3}).out, "transfer " + t3 + " is "));
  CHECK(onecopy({"transfer", "watch", t3}).exit_status == 130);
  CHECK(onecopy({"transfer", "cancel", t3}).out == "transfer " + t3 + " is CANCELLED\n");
  CHECK(onecopy({"transfer", "cancel", t1}).out == "transfer " + t1 + " is SUCCEEDED\n");
}

TEST_CASE("nodes are listed, shown, released, and told how much to log") {
  ProgramFixture onecopy([](const std::string& node, NodePlan& plan) {
    WithGpus()(node, plan);
    plan.options.peers.push_back({"north", "127.0.0.1:1", {}});
  });
  const Run list = onecopy({"node", "ls"});
  CHECK(Has(list.out, "east (here)  CONNECTED"));
  CHECK(Has(list.out, "PEER_DOWN: "));
  CHECK(onecopy({"node", "ls", "--json"}).json().size() == 3);
  const Json node = onecopy({"node", "show", "west", "--json"}).json();
  CHECK(node["name"] == "west");
  CHECK(node["memories"][0]["kind"] == "host");
  CHECK(node["memories"][1]["viability"]["viable"] == true);
  CHECK(node["links"][0]["name"] == "tcp");
  CHECK(node["stores"].is_array());
  CHECK(onecopy({"node", "release", "cuda:0"}).exit_status == 0);
  CHECK(onecopy({"node", "release", "cuda:7"}).exit_status == 3);
  CHECK(onecopy({"node", "log-level", "debug"}).out == "log level debug, was info\n");
}

TEST_CASE("a GPU that cannot be used is shown with the reason and what to do") {
  ProgramFixture onecopy(WithGpus(onecopy::testing::OldFakeCudaPath()));
  const Run show = onecopy({"node", "show"});
  CHECK(Has(show.out, "not usable: DRIVER_TOO_OLD, "));
  CHECK(Has(show.out, "try: "));
  const Json node = onecopy({"node", "show", "west", "--json"}).json();
  CHECK(node["memories"][1]["viability"]["reason"] == "DRIVER_TOO_OLD");
}

TEST_CASE("top prints once where nobody watches") {
  ProgramFixture onecopy;
  REQUIRE(onecopy({"cp", "a", "west:b"}).exit_status == 0);
  onecopy.daemon.Hold();
  onecopy.Detach();
  onecopy.daemon.AwaitRunning(1);
  const Json list = onecopy({"top", "--json"}).json();
  REQUIRE(list.size() == 2);
  CHECK(list[0]["state"] == "RUNNING");  // what runs comes first
}

TEST_CASE("a session that the daemon does not know is a matter of permission") {
  // Clients attach at one daemon, and ask another one.
  const ProgramFixture one;
  const ProgramFixture other;
  const onecopy::testing::TempFolder both;
  std::filesystem::create_symlink(one.dir / "attach.sock", both / "attach.sock");
  std::filesystem::create_symlink(other.dir / "api.sock", both / "api.sock");
  const Run run = Onecopy({"--run-dir", both.path(), "buffer", "ls"});
  CHECK(run.exit_status == 4);
  CHECK(Has(run.err, "[NO_SESSION]"));
}

TEST_CASE("output that cannot be written is an error") {
  ProgramFixture onecopy;
  std::ostringstream out;
  std::ostringstream err;
  out.setstate(std::ios::badbit);
  CHECK(onecopy::cli::RunProgram({"--run-dir", onecopy.dir.path(), "buffer", "ls"}, out, err) == 1);
  CHECK(Has(err.str(), "standard output"));
}

TEST_CASE("probe prints a table, and a list for programs") {
  const auto nics = std::make_shared<onecopy::testing::FakeNics>();
  ProgramFixture onecopy([nics](const std::string& node, NodePlan& plan) {
    plan.options.probe_bytes = 256 << 10;
    plan.links.push_back(
        onecopy::testing::MakeFakeRdma(onecopy::testing::MakeTcpLink(node), 2, nics));
  });
  nics->Set([](onecopy::testing::FakeNics::Hooks& hooks) {
    hooks.on_get = [](const onecopy::LaneInfo& lane) -> Status {
      if (lane.device == lane.peer_device) return onecopy::OkStatus();
      return {Code::kUnavailable, reasons::kNicUnreachable, "transport retry counter exceeded"};
    };
  });
  const Run people = onecopy({"probe", "west"});
  CHECK(people.exit_status == 0);
  CHECK(Has(people.out, "WHY NOT"));
  CHECK(Has(people.out, "nic0 > nic1"));
  CHECK(Has(people.out, "NIC_UNREACHABLE, "));
  CHECK(Has(people.out, "transport retry counter exceeded"));
  const Run programs = onecopy({"--json", "probe"});
  CHECK(programs.exit_status == 0);
  REQUIRE(programs.json().is_array());
  size_t failed = 0;
  for (const Json& probe : programs.json()) {
    failed += probe["viability"]["reason"] == "NIC_UNREACHABLE" ? 1 : 0;
  }
  CHECK(failed > 0);
}
