// Peers that vanish, stop and come back while bytes move.
#include <future>

#include "tests/cluster/receipts.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"

namespace peers_test {
namespace {

using onecopy::Client;
using namespace onecopy::testing;

// A lost peer is noticed and greeted again soon, and given up soon.
const std::string kQuick = std::string(kSlowLanes) +
                           "[peering]\nheartbeat = \"200ms\"\nreconnect_delay_max = \"200ms\"\n"
                           "[transfers]\nstall_timeout = \"1s\"\nresume_for = \"0s\"\n";
// As kQuick, but nothing is given up before a deadline.
const std::string kPatient = kSlowLanes;

// `onecopy cp east:a west:b OPTIONS` of 1 GiB on one of the nodes, seen running on both.
struct Copying {
  Survivors nodes;
  Node& east = nodes.east;
  Node& west = nodes.west;
  std::future<CommandResult> command;
  std::string id;

  Copying(const std::string& config, bool ordered_by_west, std::vector<std::string> options = {})
      : nodes(config) {
    east.Do({"buffer", "create", "a", "--size", "1GiB"});
    west.Do({"buffer", "create", "b", "--size", "1GiB"});
    options.insert(options.begin(), {"cp", "east:a", "west:b"});
    Node& initiator = ordered_by_west ? west : east;
    command =
        std::async(std::launch::async, [&initiator, options] { return initiator.Run(options); });
    for (Node* node : {&west, &east}) {
      Client client = node->Connect();
      WaitUntil("bytes move", [&] {
        const auto listed = Must(client.ListTransfers());
        if (listed.empty() || listed[0].state != onecopy::TransferState::kRunning) return false;
        id = listed[0].id.str();
        return node == &east || listed[0].bytes_done > 0;
      });
    }
  }
  // Both have met again and say the same of the transfer, which is no longer in doubt.
  Json CheckAgreed(const std::string& state) {
    east.WaitForPeer("west");
    west.WaitForPeer("east");
    const Json at_west = west.WaitForTransfer(id, state);
    const Json at_east = east.WaitForTransfer(id, state);
    CHECK(at_east.at("error").at("code") == at_west.at("error").at("code"));
    CHECK(at_east.at("error").at("reason") == at_west.at("error").at("reason"));
    return at_west.at("error");
  }
};

}  // namespace

TEST_CASE("a copy whose destination is killed ends as unconfirmed, and fails once that is back") {
  Copying copying(kQuick, false);
  copying.west.Kill();
  const CommandResult ended = copying.command.get();
  CheckRefusedNaming(ended, 8, "DEADLINE_EXCEEDED", "UNCONFIRMED", "node west");
  CHECK(RemedyOf(ended) != "");
  CHECK(copying.east.Do({"transfer", "show", copying.id}).at("state") == "UNCONFIRMED");
  copying.nodes.in_east.CheckUnchanged();
  CheckServes(copying.east);
  copying.west.Restart();
  const Json failed = copying.east.WaitForTransfer(copying.id, "FAILED");
  CHECK(failed.at("error").at("reason") == "PEER_RESTARTED");
  CheckRefused(copying.east.Run({"transfer", "watch", copying.id}), 10, "ABORTED",
               "PEER_RESTARTED");
  copying.east.WaitForPeer("west");
  copying.west.WaitForPeer("east");
  copying.east.Do({"buffer", "rm", "a"});
  CheckMoves(copying.east, copying.west);
}

TEST_CASE("a copy whose source is killed fails with the peer's name") {
  Copying copying(kQuick, true);
  copying.east.Kill();
  const CommandResult ended = copying.command.get();
  INFO(ended.out);
  CHECK(ended.exit_status == 5);
  CHECK(ended.json.at("error").at("code") == "UNAVAILABLE");
  CHECK(ended.message().find("east") != std::string::npos);
  CHECK(copying.west.Do({"transfer", "show", copying.id}).at("state") == "FAILED");
  copying.west.Do({"buffer", "rm", "b"});
  copying.nodes.in_west.CheckUnchanged();
  CheckServes(copying.west);
  copying.east.Restart();
  copying.west.WaitForPeer("east");
  copying.east.WaitForPeer("west");
  CheckMoves(copying.west, copying.east);
}

TEST_CASE("a copy from a source that stops answering ends by its deadline, and both agree") {
  Copying copying(kPatient, true, {"--deadline", "5s"});
  Frozen frozen(copying.east);
  // It does not wait for the answer of the source, which would come after half a minute.
  CheckRefusedNaming(copying.command.get(), 8, "DEADLINE_EXCEEDED", "DEADLINE",
                     "had arrived by tcp-direct, and none more for ");
  CHECK(copying.west.Do({"buffer", "show", "b"}).at("transfers") == 0);
  frozen.Thaw();
  CHECK(copying.CheckAgreed("FAILED").at("reason") == "DEADLINE");
  copying.east.Do({"buffer", "rm", "a"});
  copying.west.Do({"buffer", "rm", "b"});
  copying.nodes.Check();
}

TEST_CASE("a copy to a destination that stops answering is unconfirmed until both meet again") {
  Copying copying(kPatient, false, {"--deadline", "2s"});
  Frozen frozen(copying.west);
  CheckRefusedNaming(copying.command.get(), 8, "DEADLINE_EXCEEDED", "UNCONFIRMED", "west");
  CHECK(copying.east.Do({"transfer", "show", copying.id}).at("state") == "UNCONFIRMED");
  frozen.Thaw();
  CHECK(copying.CheckAgreed("FAILED").at("reason") != "UNCONFIRMED");
  copying.east.Do({"buffer", "rm", "a"});
  copying.west.Do({"buffer", "rm", "b"});
  copying.nodes.Check();
}

TEST_CASE(
    "a destination that was stopped for long says why it failed, and is not in doubt itself") {
  const std::string path = GENERATE("tcp-direct", "tcp-staged");
  CAPTURE(path);
  Copying copying(kQuick + "[staging]\nslot_bytes = \"4KiB\"\n", true, {"--path", path});
  Frozen frozen(copying.west);
  WaitUntil("east has given up", [&] {
    return copying.east.Do({"transfer", "show", copying.id}).at("state") == "UNCONFIRMED";
  });
  frozen.Thaw();
  const Json error = copying.CheckAgreed("FAILED");
  INFO(error.dump());
  CHECK(error.at("reason") != "UNCONFIRMED");
  copying.east.Do({"buffer", "rm", "a"});
  copying.west.Do({"buffer", "rm", "b"});
  copying.nodes.Check();
}

TEST_CASE("a copy of which no byte moves is ended as stalled") {
  Copying copying(std::string(kSlowLanes) + "[transfers]\nstall_timeout = \"1s\"\n", true);
  Frozen frozen(copying.east);
  CheckRefusedNaming(copying.command.get(), 8, "DEADLINE_EXCEEDED", "STALLED", "1 s");
  frozen.Thaw();
  CHECK(copying.CheckAgreed("FAILED").at("reason") == "STALLED");
  copying.east.Do({"buffer", "rm", "a"});
  copying.west.Do({"buffer", "rm", "b"});
  copying.nodes.Check();
}

TEST_CASE("a copy that waits for a node which does not answer says so, and goes on when it does") {
  Survivors nodes(kPatient);
  nodes.east.Do({"buffer", "create", "a", "--size", "4096"});
  nodes.west.Do({"buffer", "create", "b", "--size", "4096"});
  TempFolder folder;
  Frozen frozen(nodes.west);
  Process copying({.program = "onecopy",
                   .arguments = {"--run-dir", nodes.east.run_dir(), "--json", "cp", "a", "west:b"},
                   .error_file = folder / "err"});
  WaitUntil("the silence is told", [&] {
    return ReadFile(folder / "err").find("node west does not answer") != std::string::npos;
  });
  CHECK(copying.running());
  frozen.Thaw();
  const Json copied = Json::parse(copying.ReadAll());
  CHECK(copying.Wait() == 0);
  CHECK(copied.at("state") == "SUCCEEDED");
  nodes.east.Do({"buffer", "rm", "a"});
  nodes.west.Do({"buffer", "rm", "b"});
  nodes.Check();
}

TEST_CASE("a copy that does not begin within its deadline says what it waited for") {
  Survivors nodes(kPatient);
  nodes.east.Do({"buffer", "create", "a", "--size", "4096"});
  nodes.west.Do({"buffer", "create", "b", "--size", "4096"});
  TempFolder folder;
  WriteFile(folder / "file", "bytes");
  {
    const Frozen frozen(nodes.west);
    const auto late = [&](const std::string& source, const std::string& destination,
                          const std::string& waited) {
      INFO(source << " to " << destination);
      const CommandResult ended =
          nodes.east.Run({"cp", source, destination, "--deadline", "700ms"});
      CheckRefusedNaming(ended, 8, "DEADLINE_EXCEEDED", "DEADLINE", waited);
      CHECK(RemedyOf(ended) != "");
    };
    late("a", "west:b", "it waited for node west to plan and start the transfer");
    late("west:b", "a", "it waited for node west to say whether the source may be read");
    late(folder / "file", "west:b", "it waited for node west to describe buffer b");
  }
  nodes.east.Do({"buffer", "rm", "a"});
  nodes.west.Do({"buffer", "rm", "b"});
  nodes.Check();
}

TEST_CASE("a copy that is overtaken by its deadline says how far it came") {
  Copying copying(kPatient, true, {"--deadline", "2s"});
  const CommandResult ended = copying.command.get();
  CheckRefusedNaming(ended, 8, "DEADLINE_EXCEEDED", "DEADLINE",
                     " of 1 GiB had arrived by tcp-direct");
  copying.east.Do({"buffer", "rm", "a"});
  copying.west.Do({"buffer", "rm", "b"});
  copying.nodes.Check();
}
}  // namespace peers_test
