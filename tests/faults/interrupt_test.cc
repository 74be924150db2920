// Commands that are interrupted or killed while bytes move.
#include <signal.h>

#include "tests/faults/serving.h"
#include "tests/support/catch.h"

namespace interrupt_test {
namespace {

using onecopy::Client;
using onecopy::TransferState;
using namespace onecopy::testing;

// A copy that takes many seconds, on east.
struct Copying {
  Survivors nodes{kSlowLanes};
  Client client = nodes.east.Connect();
  TempFolder folder;
  std::unique_ptr<Process> command;
  onecopy::TransferId id;

  Copying(const std::string& source, const std::string& destination) {
    nodes.east.Do({"buffer", "create", "a", "--size", "1GiB"});
    nodes.west.Do({"buffer", "create", "b", "--size", "1GiB"});
    command = std::make_unique<Process>(ProcessOptions{
        .program = "onecopy",
        .arguments = {"--run-dir", nodes.east.run_dir(), "--json", "cp", source, destination},
        .input_file = "/dev/zero",
        .error_file = folder / "err"});
    WaitUntil("bytes move", [&] {
      const auto listed = Must(client.ListTransfers());
      if (listed.empty() || listed[0].state != TransferState::kRunning) return false;
      id = listed[0].id;
      return listed[0].bytes_done > 0;
    });
  }
  // Nothing uses the buffers any more, and nothing else is left.
  void Check() {
    for (Node* node : {&nodes.east, &nodes.west}) {
      node->Do({"buffer", "rm", node == &nodes.east ? "a" : "b"});
      WaitUntil("windows are gone", [&] { return node->Do({"buffer", "ls"}).size() == 1; });
    }
    nodes.Check();
  }
};

}  // namespace

TEST_CASE("an interrupted copy is cancelled, and ends when nothing moves any more") {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Copying copying("a", "west:b");
    copying.command->Signal(signal);
    const Json said = Json::parse(copying.command->ReadAll());
    CHECK(copying.command->Wait() == 130);
    CHECK(said.at("error").at("code") == "CANCELLED");
    CHECK(Must(copying.client.GetTransfer(copying.id)).state == TransferState::kCancelled);
    copying.Check();
  }
}

TEST_CASE("an interrupted copy of a pipe is cancelled, with its windows") {
  Copying copying("-", "west:b");
  copying.command->Signal(SIGINT);
  const Json said = Json::parse(copying.command->ReadAll());
  CHECK(copying.command->Wait() == 130);
  CHECK(said.at("error").at("code") == "CANCELLED");
  copying.Check();
}

TEST_CASE("a copy of a pipe whose command is killed leaves nothing behind") {
  Copying copying("-", "west:b");
  copying.command->Signal(SIGKILL);
  CHECK(copying.command->Wait() == 1000 + SIGKILL);
  const auto ended = Must(copying.client.AwaitTransfer(copying.id));
  // Unless that window had just been emptied.
  if (ended.state != TransferState::kSucceeded) {
    CheckFailed(ended.error, onecopy::Code::kAborted, "OWNER_DIED");
  }
  copying.Check();
}

TEST_CASE("a copy between buffers goes on when its command is killed, and can be cancelled") {
  Copying copying("a", "west:b");
  copying.command->Signal(SIGKILL);
  CHECK(copying.command->Wait() == 1000 + SIGKILL);
  CHECK(Must(copying.client.GetTransfer(copying.id)).state == TransferState::kRunning);
  copying.nodes.east.Do({"transfer", "cancel", copying.id.str()});
  CHECK(Must(copying.client.AwaitTransfer(copying.id)).state == TransferState::kCancelled);
  CHECK(copying.nodes.east.Run({"transfer", "watch", copying.id.str()}).exit_status == 130);
  copying.Check();
}
}  // namespace interrupt_test
