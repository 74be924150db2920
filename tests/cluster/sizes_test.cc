// Bytes of every size and place arrive, on every path that works between two nodes and inside one.
#include "tests/support/catch.h"
#include "tests/support/node.h"

using onecopy::testing::Json;
using onecopy::testing::Node;
using onecopy::testing::Payload;

namespace {

// Two nodes that know each other.
struct Pair {
  Node west{"west"};
  Node east{"east", {.peers = {west.AsPeer()}}};
  Pair() { east.WaitForPeer("west"); }
};

}  // namespace

TEST_CASE("a file goes into a buffer, to the other node, and back into a file") {
  Pair pair;
  const std::string payload = Payload(1'000'003);
  pair.east.Do({"buffer", "create", "a", "--size", "1000003", "--memory", "host"});
  pair.west.Do({"buffer", "create", "b", "--size", "1000003", "--memory", "host"});
  pair.east.Do({"cp", "-", "a"}, payload);
  const Json receipt = pair.east.Do({"cp", "a", "west:b", "--checksum"});
  CHECK(receipt["state"] == "SUCCEEDED");
  CHECK(receipt["path"] == "tcp-direct");
  CHECK(receipt["copies"] == 3);
  CHECK(receipt["steps"].size() == 3);
  CHECK(receipt["checksum"]["verified"] == true);
  CHECK(onecopy::testing::RunCommand("onecopy", {"--run-dir", pair.west.run_dir(), "cp", "b", "-"})
            .out == payload);
}
