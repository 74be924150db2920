// Buffers that are removed while bytes move through them.
#include "tests/cluster/receipts.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"

namespace removal_test {
namespace {

using onecopy::Client;
using onecopy::TransferInfo;
using onecopy::TransferState;
using namespace onecopy::testing;

constexpr char kLarge[] = "1GiB";

// A transfer from east's "a" to west's "b" that takes many seconds.
struct Running {
  Survivors nodes{kSlowLanes};
  Client client = nodes.east.Connect();
  std::string id;

  Running() {
    nodes.east.Do({"buffer", "create", "a", "--size", kLarge});
    nodes.west.Do({"buffer", "create", "b", "--size", kLarge});
    id = StartAndSeeRunning(client,
                            {.source = {"", "a", {}, {}}, .destination = {"west", "b", {}, {}}})
             .id.str();
    WaitUntil("west, too, calls it running", [this] {
      return nodes.west.Do({"transfer", "show", id}).at("state") == "RUNNING";
    });
  }
  void CheckInUse(Node& node, const std::string& buffer, Node& other) {
    const Frozen frozen(other);  // so that it cannot end meanwhile
    const CommandResult refused = node.Run({"buffer", "rm", buffer});
    CheckRefusedNaming(refused, 7, "FAILED_PRECONDITION", "BUFFER_IN_USE", buffer);
    CHECK(refused.message().find(id) != std::string::npos);
    CHECK(RemedyOf(refused).find("--force") != std::string::npos);
    CHECK(node.Do({"buffer", "show", buffer}).at("transfers") == 1);
    CHECK(node.Do({"transfer", "show", id}).at("state") == "RUNNING");
  }
  void CheckForced(Node& node, const std::string& buffer) {
    node.Do({"buffer", "rm", buffer, "--force"});
    CheckRefused(node.Run({"buffer", "show", buffer}), 3, "NOT_FOUND", "BUFFER_NOT_FOUND");
    for (Node* each : {&nodes.east, &nodes.west}) {
      const CommandResult watched = each->Run({"transfer", "watch", id});
      CheckRefusedNaming(watched, 130, "CANCELLED", "CANCELLED", "\"" + buffer + "\" was removed");
      CHECK(each->Do({"transfer", "show", id}).at("state") == "CANCELLED");
    }
    // Whoever else used it has let go, and may be removed in peace.
    for (Node* each : {&nodes.east, &nodes.west}) {
      for (const Json& left : each->Do({"buffer", "ls"})) CHECK(left.at("transfers") == 0);
    }
    nodes.Check();
  }
};

}  // namespace

TEST_CASE("a source that is in use is removed only by force, which cancels the transfer") {
  Running running;
  running.CheckInUse(running.nodes.east, "a", running.nodes.west);
  running.CheckForced(running.nodes.east, "a");
  running.nodes.west.Do({"buffer", "rm", "b"});
}

TEST_CASE("a destination that is in use is removed only by force, which cancels the transfer") {
  Running running;
  running.CheckInUse(running.nodes.west, "b", running.nodes.east);
  running.CheckForced(running.nodes.west, "b");
  running.nodes.east.Do({"buffer", "rm", "a"});
}

TEST_CASE("a buffer that is being read is removed by force in an instant by its client, too") {
  Survivors nodes(kSlowLanes);
  Client owner = nodes.east.Connect();
  nodes.west.Do({"buffer", "create", "b", "--size", kLarge});
  {
    const auto window =
        Must(owner.CreateHostBuffer("window", uint64_t{1} << 30, onecopy::HostPages::kWhenTouched));
    const TransferInfo started = StartAndSeeRunning(
        owner, {.source = window.endpoint(), .destination = {"west", "b", {}, {}}});
    CheckRefused(nodes.east.Run({"buffer", "rm", "window"}), 7, "FAILED_PRECONDITION",
                 "BUFFER_IN_USE");
    REQUIRE_OK(owner.DeleteBuffer("window", true));
    const TransferInfo ended = Must(owner.AwaitTransfer(started.id));
    CHECK(ended.state == TransferState::kCancelled);
    CheckFailed(ended.error, onecopy::Code::kCancelled, "CANCELLED");
  }
  nodes.Check();
}
}  // namespace removal_test
