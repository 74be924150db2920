// A wall clock that is set while transfers run.
#include "tests/faults/serving.h"
#include "tests/support/catch.h"

namespace clock_test {
namespace {

using onecopy::Client;
using namespace onecopy::testing;

struct Clock {
  TempFolder folder;
  std::string file = folder / "ahead";

  Clock() { Step("0"); }
  void Step(const std::string& seconds) const { WriteFile(file, seconds); }
  NodeOptions Options(const std::vector<std::string>& peers) const {
    NodeOptions options;
    options.peers = peers;
    options.config = kSlowLanes;
    options.environment = {
        "LD_PRELOAD=" + (ProgramFolder() / "support" / "libstepped_clock.so").string(),
        "ONECOPY_TEST_CLOCK=" + file};
    return options;
  }
};

}  // namespace

TEST_CASE("no transfer ends before it began, whatever is done to the clock on the wall") {
  const Clock clock;
  Node west("west", clock.Options({}));
  Node east("east", clock.Options({west.AsPeer()}));
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  east.Do({"buffer", "create", "a", "--size", "1GiB"});
  west.Do({"buffer", "create", "b", "--size", "1GiB"});
  Client client = west.Connect();
  const auto started = Must(client.StartTransfer(
      {.source = {"east", "a", {}, {}}, .destination = {"", "b", {}, {}}, .policy = {}}));
  SeeRunning(client, started.id);
  clock.Step("-86400");
  // It has been set for this daemon, too: what is made now is a day older.
  const auto made = Must(client.CreateBuffer({.name = "now", .bytes = 1, .memory = "host"}));
  REQUIRE(made.create_time < started.create_time);
  Must(client.CancelTransfer(started.id));
  for (const Node* node : {&west, &east}) {
    const Json ended = node->WaitForTransfer(started.id.str(), "CANCELLED");
    INFO(ended.dump());
    CHECK(ended.at("end_time").get<std::string>() >= ended.at("create_time").get<std::string>());
  }
  CheckServes(west);
}
}  // namespace clock_test
