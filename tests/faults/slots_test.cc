// Real daemons that have to share their staging slots.
#include <future>

#include "tests/cluster/receipts.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"

namespace slots_test {
namespace {

using namespace onecopy::testing;

// Two for sending and two for receiving, so small that a GiB takes many seconds.
const std::string kFew = "[staging]\nslot_bytes = \"4KiB\"\nslots = 4\n";

// East sends, through slots, to west and to north.
struct Three {
  Node west;
  Node north;
  Node east;

  explicit Three(const std::string& config = kFew)
      : west("west", {.config = config}),
        north("north", {.config = config}),
        east("east", {.peers = {west.AsPeer(), north.AsPeer()}, .config = config}) {
    east.WaitForPeer("west");
    east.WaitForPeer("north");
    east.Do({"buffer", "create", "long", "--size", "1GiB"});
    east.Do({"buffer", "create", "short", "--size", "4KiB"});
    north.Do({"buffer", "create", "sink", "--size", "1GiB"});
    west.Do({"buffer", "create", "cup", "--size", "4KiB"});
  }
  // The transfer's id, once bytes of it move.
  std::string StartLong() {
    const Json started = east.Do({"cp", "long", "north:sink", "--path", "tcp-staged", "--detach"});
    const std::string id = started.at("id");
    WaitUntil("bytes move", [&] {
      const Json seen = north.Do({"transfer", "show", id});
      return seen.at("state") == "RUNNING" && seen.at("bytes_done") > 0;
    });
    return id;
  }
  static std::vector<std::string> Short(const std::vector<std::string>& options = {}) {
    std::vector<std::string> command = {"cp", "short", "west:cup", "--path", "tcp-staged"};
    command.insert(command.end(), options.begin(), options.end());
    return command;
  }
};

}  // namespace

TEST_CASE("4 KiB pass through the slots while a GiB does") {
  Three nodes;
  const std::string id = nodes.StartLong();
  for (int i = 0; i < 3; ++i) {
    const CommandResult copied = nodes.east.Run(Three::Short({"--checksum"}));
    INFO(copied.err);
    CHECK(copied.exit_status == 0);
  }
  const Json lasting = nodes.north.Do({"transfer", "show", id});
  CHECK(lasting.at("state") == "RUNNING");
  nodes.east.Do({"transfer", "cancel", id});
}

TEST_CASE("what waits for slots says so, and ends by its deadline or when it is cancelled") {
  Three nodes;
  nodes.StartLong();
  Frozen frozen(nodes.north);  // with all slots of east for sending
  CheckRefusedNaming(nodes.east.Run(Three::Short({"--deadline", "1s"})), 8, "DEADLINE_EXCEEDED",
                     "DEADLINE", "staging slots of node east");
  const std::string id = nodes.east.Do(Three::Short({"--detach"})).at("id");
  WaitUntil("it says what it waits for", [&] {
    const std::string waits_for = nodes.east.Do({"transfer", "show", id}).at("waits_for");
    return waits_for.starts_with("staging slots of node east");
  });
  const Json listed = nodes.east.Do({"top"});
  CHECK(listed.dump().find("staging slots of node east") != std::string::npos);
  const Json cancelled = nodes.east.Do({"transfer", "cancel", id});
  CHECK(cancelled.at("state") == "CANCELLED");
  CHECK(nodes.west.WaitForTransfer(id, "CANCELLED").at("waits_for") == "");
}

TEST_CASE("slots of a destination that is killed serve others at once") {
  Three nodes(kFew + "[transfers]\nstall_timeout = \"10m\"\n");
  nodes.StartLong();
  {
    Frozen frozen(nodes.north);  // so that slots are full when it is killed
    nodes.north.Kill();
  }
  const CommandResult copied = nodes.east.Run(Three::Short({"--checksum"}));
  INFO(copied.err << copied.out);
  CHECK(copied.exit_status == 0);
}

TEST_CASE("slots of a destination that is stopped serve others once it is not heard any more") {
  Three nodes(kFew + "[peering]\nheartbeat = \"200ms\"\n[transfers]\nstall_timeout = \"10m\"\n");
  nodes.StartLong();
  Frozen frozen(nodes.north);
  const CommandResult copied = nodes.east.Run(Three::Short({"--checksum"}));
  INFO(copied.err << copied.out);
  CHECK(copied.exit_status == 0);
}
}  // namespace slots_test
