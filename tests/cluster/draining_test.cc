// SIGTERM: what runs may end, nothing new begins.
#include <signal.h>

#include <chrono>
#include <future>
#include <utility>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"

namespace draining_test {
namespace {

using onecopy::Client;
using onecopy::TransferInfo;
using namespace onecopy::testing;

constexpr uint64_t kLarge = uint64_t{1} << 30;

struct Moving {
  explicit Moving(const std::string& config = {}) : pair(config) { Begin(); }

  Pair pair;
  Client east = pair.east.Connect();
  Client west = pair.west.Connect();
  TransferInfo transfer;

  // A large transfer from east to west, which stands still while either of them is frozen.
  void Begin() {
    const std::string size = std::to_string(kLarge);
    pair.east.Do({"buffer", "create", "a", "--size", size, "--memory", "host"});
    pair.west.Do({"buffer", "create", "b", "--size", size, "--memory", "host"});
    pair.east.Do({"buffer", "create", "small", "--size", "4096", "--memory", "host"});
    pair.west.Do({"buffer", "create", "small", "--size", "4096", "--memory", "host"});
    transfer = StartAndSeeRunning(
        east,
        {.source = {"", "a", {}, {}}, .destination = {"west", "b", {}, {}}, .checksum = true});
  }
};

void WaitUntilDraining(Client& client) {
  WaitUntil(client.node() + " drains", [&] {
    const auto self = client.GetNode();
    return self.ok() && self->state == onecopy::NodeState::kDraining;
  });
}

}  // namespace

TEST_CASE("a daemon without transfers ends at once, with 0") {
  Pair pair;
  CHECK(pair.west.Stop() == 0);
  CHECK(pair.east.Stop() == 0);
}

TEST_CASE("a destination that drains lets its transfer succeed, refuses others, and exits with 0") {
  Moving moving;
  Frozen east(moving.pair.east);  // keeps the transfer under way
  moving.pair.west.process().Signal(SIGTERM);
  WaitUntilDraining(moving.west);
  const onecopy::Status refused =
      moving.west
          .StartTransfer({.source = {"", "small", 0, 10}, .destination = {"", "small", 20, 10}})
          .status();
  INFO(refused.ToString());
  CHECK(refused.code() == onecopy::Code::kUnavailable);
  CHECK(refused.reason() == "DRAINING");
  east.Thaw();
  const TransferInfo done = Must(moving.east.AwaitTransfer(moving.transfer.id));
  CheckReceipt(done, {"tcp-direct", kLarge, true});
  CHECK(moving.pair.west.process().Wait() == 0);
  CHECK(moving.pair.east.Run({"cp", "small", "west:small"}).exit_status == 5);
  CheckReceipt(moving.pair.east.Do({"transfer", "show", done.id.str()}),
               {"tcp-direct", kLarge, true});
}

TEST_CASE("a source that drains lets its transfer succeed, refuses others, and exits with 0") {
  Moving moving;
  Frozen west(moving.pair.west);
  moving.pair.east.process().Signal(SIGTERM);
  WaitUntilDraining(moving.east);
  const onecopy::Status refused = moving.east
                                      .StartTransfer({.source = {"", "small", {}, {}},
                                                      .destination = {"west", "small", {}, {}}})
                                      .status();
  CHECK(refused.code() == onecopy::Code::kUnavailable);
  CHECK(refused.reason() == "DRAINING");
  west.Thaw();
  CheckReceipt(Must(moving.west.AwaitTransfer(moving.transfer.id)), {"tcp-direct", kLarge, true});
  CHECK(moving.pair.east.process().Wait() == 0);
}

TEST_CASE("a command that meets a draining daemon exits with 5 and says why") {
  Moving moving;
  Frozen west(moving.pair.west);
  moving.pair.east.process().Signal(SIGTERM);
  WaitUntilDraining(moving.east);
  CheckRefused(moving.pair.east.Run({"cp", "small@0+10", "small@20"}), 5, "UNAVAILABLE",
               "DRAINING");
  CHECK(moving.pair.east.Do({"node", "show"}).at("state") == "DRAINING");
  CHECK(moving.pair.east.Do({"transfer", "show", moving.transfer.id.str()}).at("state") ==
        "RUNNING");
  west.Thaw();
  CHECK(moving.pair.east.process().Wait() == 0);
}

TEST_CASE("a daemon that may not wait for its transfers ends them, says so, and exits with 0") {
  Moving moving("[transfers]\ndrain_timeout = \"0s\"\n");
  Frozen east(moving.pair.east);
  moving.pair.west.process().Signal(SIGTERM);
  WaitUntilDraining(moving.west);
  east.Thaw();
  CHECK(moving.pair.west.process().Wait() == 0);
  const TransferInfo ended = Must(moving.east.AwaitTransfer(moving.transfer.id));
  CHECK(ended.state == onecopy::TransferState::kFailed);
  CHECK(ended.error.code() == onecopy::Code::kUnavailable);
  CHECK(ended.error.reason() == "DRAINING");
  moving.pair.east.Do({"buffer", "rm", "a"});
}

TEST_CASE(
    "a node that an administrator drains lets what runs end, refuses the rest, and comes back") {
  Moving moving;
  Node& west = moving.pair.west;
  Node& east = moving.pair.east;
  // Routes of rings, from both sides, which ask nobody any more.
  onecopy::HostBuffer inside = Must(moving.west.CreateHostBuffer("inside", 4096));
  const onecopy::TransferRequest here{.source = {"", "small", {}, {}},
                                      .destination = {"", "inside", {}, {}}};
  const onecopy::TransferRequest there{.source = {"", "small", {}, {}},
                                       .destination = {"west", "small", {}, {}}};
  const onecopy::TransferRequest back{.source = {"west", "small", {}, {}},
                                      .destination = {"", "small", {}, {}}};
  for (int i = 0; i < 3; ++i) {
    Must(moving.west.RunTransfer(here));
    Must(moving.east.RunTransfer(there));
    Must(moving.east.RunTransfer(back));
  }
  Frozen frozen(east);  // keeps the transfer under way
  CHECK(west.Do({"node", "drain"}) == Json({{"draining", true}, {"running", 1}}));
  frozen.Thaw();
  for (const auto& [client, request] :
       {std::pair(&moving.west, &here), {&moving.east, &there}, {&moving.east, &back}}) {
    for (const bool by_ring : {true, false}) {
      CAPTURE(client->node(), request->destination.node, by_ring);
      const onecopy::Status refused = by_ring ? client->RunTransfer(*request).status()
                                              : client->StartTransfer(*request).status();
      INFO(refused.ToString());
      CHECK(refused.code() == onecopy::Code::kUnavailable);
      CHECK(refused.reason() == "DRAINING");
    }
  }
  // Whoever is refused reads which node it is, and what to do.
  const CommandResult told = east.Run({"cp", "small", "west:small"});
  CHECK(told.exit_status == 5);
  CHECK(told.json.at("error").at("message").get<std::string>().find("node west") !=
        std::string::npos);
  CHECK(told.json.at("error").at("remedy").get<std::string>().find("onecopy node undrain") !=
        std::string::npos);
  east.WaitForPeer("west", "DRAINING");
  const Json shown = west.Do({"node", "show"});
  CHECK(shown.at("state") == "DRAINING");
  CHECK(shown.at("reason") == "DRAINING");
  // It may be planned, listed and made ready for.
  CHECK(east.Do({"explain", "small", "west:small"}).contains("path"));
  CHECK(west.Do({"buffer", "ls"}).size() >= 2);

  CHECK(west.Do({"node", "drain", "--wait"}).at("running") == 0);
  CheckReceipt(Must(moving.east.AwaitTransfer(moving.transfer.id)), {"tcp-direct", kLarge, true});

  CHECK(west.Do({"node", "undrain"}).at("draining") == false);
  east.WaitForPeer("west");
  CHECK(west.Do({"node", "show"}).at("state") == "CONNECTED");
  for (int i = 0; i < 3; ++i) {
    Must(moving.west.RunTransfer(here));
    Must(moving.east.RunTransfer(there));
    Must(moving.east.RunTransfer(back));
  }
}

// What goes in windows asks for each part anew; the client at the other end of the pipe holds it
// up.
TEST_CASE("a copy in windows ends although either node drains meanwhile") {
  constexpr uint64_t kBytes = uint64_t{192} << 20;
  const std::string payload = Payload(kBytes);
  Pair pair;
  pair.west.Do({"buffer", "create", "b", "--size", std::to_string(kBytes), "--memory", "host"});
  const auto drain_while_parts_move = [&](Node& drained) {
    WaitUntil("parts move", [&] {
      for (const Json& transfer : pair.east.Do({"transfer", "ls"})) {
        if (transfer.at("state") == "RUNNING" && transfer.at("bytes_done") > 0) return true;
      }
      return false;
    });
    CHECK(drained.Do({"node", "drain"}).at("running") >= 0);
    CHECK(pair.east.Run({"cp", "west:b", pair.east.folder() / "new"}).exit_status == 5);
  };
  for (Node* drained : {&pair.east, &pair.west}) {
    CAPTURE(drained->name());
    const std::vector<std::string> cp = {"--run-dir", pair.east.run_dir(), "cp"};
    std::vector<std::string> in = cp;
    in.insert(in.end(), {"-", "west:b"});
    Process writes({.program = "onecopy", .arguments = in, .input_file = ""});
    writes.Write(payload.substr(0, kBytes - 1));
    drain_while_parts_move(*drained);
    writes.Write(payload.substr(kBytes - 1));
    writes.CloseInput();
    CHECK(writes.Wait() == 0);
    drained->Do({"node", "undrain"});

    std::vector<std::string> out = cp;
    out.insert(out.end(), {"west:b", "-"});
    Process reads({.program = "onecopy", .arguments = out});
    drain_while_parts_move(*drained);
    CHECK(reads.ReadAll() == payload);
    CHECK(reads.Wait() == 0);
    drained->Do({"node", "undrain"});
  }
}

TEST_CASE("whoever waits for a drain is told that it was ended; a second drain changes nothing") {
  Moving moving;
  Frozen frozen(moving.pair.east);
  Client& west = moving.west;
  REQUIRE(west.SetDraining(true).ok());
  Client waiting = moving.pair.west.Connect();
  std::future<onecopy::Status> ended =
      std::async(std::launch::async, [&] { return waiting.SetDraining(true, true).status(); });
  // It may be asked before or after that, which makes no difference to the drain.
  CHECK(Must(west.SetDraining(true)) == 1);
  WaitUntil("it is told", [&] {
    REQUIRE(west.SetDraining(false).ok());
    return ended.wait_for(std::chrono::milliseconds(10)) == std::future_status::ready;
  });
  CHECK(ended.get().code() == onecopy::Code::kAborted);
  frozen.Thaw();
  CheckReceipt(Must(moving.east.AwaitTransfer(moving.transfer.id)), {"tcp-direct", kLarge, true});
}
}  // namespace draining_test
