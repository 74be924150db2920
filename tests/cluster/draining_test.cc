// SIGTERM: what runs may end, nothing new begins.
#include <signal.h>

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
}  // namespace draining_test
