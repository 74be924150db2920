// A daemon dies and comes back at the same address.
#include <algorithm>
#include <stdexcept>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"

namespace recovery_test {
namespace {

using onecopy::Client;
using onecopy::TransferInfo;
using onecopy::TransferState;
using namespace onecopy::testing;

constexpr uint64_t kLarge = uint64_t{2} << 30;
// So that a lost peer is greeted again soon.
constexpr char kQuick[] =
    "[peering]\nheartbeat = \"200ms\"\nreconnect_delay_max = \"200ms\"\n"
    "[transfers]\nresume_for = \"0s\"\n";

Json NodeIn(const Json& list, const std::string& name) {
  for (const Json& node : list) {
    if (node.at("name") == name) return node;
  }
  throw std::runtime_error("no node " + name + " in " + list.dump());
}

std::string CreateBuffer(const Node& node, const std::string& name, uint64_t bytes = 4096) {
  return node.Do({"buffer", "create", name, "--size", std::to_string(bytes), "--memory", "host"})
      .at("id");
}

// Waits until the peer is there with another life than that one.
void WaitForAnother(const Node& node, const std::string& peer, const std::string& boot_id) {
  Client client = node.Connect();
  WaitUntil(node.name() + " has met the new " + peer, [&] {
    const auto info = Must(client.GetNode(peer));
    return info.state == onecopy::NodeState::kConnected && info.boot_id != boot_id;
  });
}

}  // namespace

TEST_CASE("a peer that was killed shows as gone, and as itself anew once it is back") {
  Pair pair(kQuick);
  const Json before = pair.east.Do({"node", "show", "west"});
  const std::string old_boot = before.at("boot_id");
  CHECK(before.at("state") == "CONNECTED");
  CreateBuffer(pair.east, "a");
  const std::string old_id = CreateBuffer(pair.west, "b");
  const std::string done = pair.east.Do({"cp", "a", "west:" + old_id}).at("id");

  pair.west.Kill();
  pair.east.WaitForPeer("west", "DISCONNECTED");
  const Json listed = pair.east.Do({"node", "ls"});
  CHECK(NodeIn(listed, "east").at("state") == "CONNECTED");
  const Json gone = NodeIn(listed, "west");
  CHECK(gone.at("state") == "DISCONNECTED");
  CHECK(gone.at("reason") == "PEER_DOWN");
  CHECK(gone.at("detail") != "");
  CHECK(gone.at("address") == pair.west.address());
  const Json shown = pair.east.Do({"node", "show", "west"});
  CHECK(shown.at("state") == "DISCONNECTED");
  CHECK(shown.at("reason") == "PEER_DOWN");
  CheckRefused(pair.east.Run({"cp", "a", "west:b"}), 5, "UNAVAILABLE", "PEER_DOWN");
  CheckRefused(pair.east.Run({"cp", "west:b", "a"}), 5, "UNAVAILABLE", "PEER_DOWN");
  CheckRefused(pair.east.Run({"explain", "a", "west:b"}), 5, "UNAVAILABLE", "PEER_DOWN");
  CheckRefused(pair.east.Run({"buffer", "ls", "west"}), 5, "UNAVAILABLE", "PEER_DOWN");
  // Inside the survivor everything goes on, and what was is still known.
  CreateBuffer(pair.east, "c");
  CheckReceipt(pair.east.Do({"cp", "a", "c"}), {"local", 4096, false});
  CheckReceipt(pair.east.Do({"transfer", "show", done}), {"tcp-direct", 4096, false});

  pair.west.Restart();
  WaitForAnother(pair.east, "west", old_boot);
  pair.west.WaitForPeer("east");
  CHECK(pair.west.Do({"buffer", "ls"}).empty());
  CheckRefused(pair.east.Run({"cp", "a", "west:b"}), 3, "NOT_FOUND", "BUFFER_NOT_FOUND");
  CreateBuffer(pair.west, "b");
  pair.east.Do({"cp", "-", "a"}, Payload(4096));
  CheckReceipt(pair.east.Do({"cp", "a", "west:b", "--checksum"}), {"tcp-direct", 4096, true});
  CHECK(Contents(pair.west, "b") == Payload(4096));
  CheckReceipt(pair.west.Do({"cp", "b", "east:c", "--path", "tcp-staged"}),
               {"tcp-staged", 4096, false});
  const Json transfers = pair.east.Do({"transfer", "ls"});
  CHECK(std::any_of(transfers.begin(), transfers.end(),
                    [&](const Json& transfer) { return transfer.at("id") == done; }));
}

TEST_CASE("a buffer's id does not outlive the buffer, nor its daemon") {
  Pair pair(kQuick);
  CreateBuffer(pair.east, "a");
  const std::string first = CreateBuffer(pair.west, "b");
  pair.west.Do({"buffer", "rm", "b"});
  const std::string second = CreateBuffer(pair.west, "b");
  CHECK(second != first);
  CheckRefused(pair.east.Run({"cp", "a", "west:" + first}), 3, "NOT_FOUND", "BUFFER_NOT_FOUND");
  CheckReceipt(pair.east.Do({"cp", "a", "west:" + second}), {"tcp-direct", 4096, false});

  const std::string old_boot = pair.east.Do({"node", "show", "west"}).at("boot_id");
  pair.west.Kill();
  pair.west.Restart();
  WaitForAnother(pair.east, "west", old_boot);
  CreateBuffer(pair.west, "b");
  CreateBuffer(pair.west, "c");
  for (const std::string& stale : {first, second}) {
    CheckRefused(pair.east.Run({"cp", "a", "west:" + stale}), 3, "NOT_FOUND", "BUFFER_NOT_FOUND");
    CheckRefused(pair.west.Run({"buffer", "show", stale}), 3, "NOT_FOUND", "BUFFER_NOT_FOUND");
  }
}

TEST_CASE("a transfer whose source is killed on its way fails, and the destination serves on") {
  Pair pair(kQuick);
  CreateBuffer(pair.east, "a", kLarge);
  CreateBuffer(pair.west, "b", kLarge);
  Client west = pair.west.Connect();
  const TransferInfo started =
      StartAndSeeRunning(west, {.source = {"east", "a", {}, {}}, .destination = {"", "b", {}, {}}});
  {
    const Frozen frozen(pair.east);
    pair.east.Kill();
  }
  const TransferInfo ended = Must(west.AwaitTransfer(started.id));
  CHECK(ended.state == TransferState::kFailed);
  INFO(ended.error.ToString());
  CHECK(ended.error.code() == onecopy::Code::kUnavailable);
  CHECK(pair.west.Run({"transfer", "watch", started.id.str()}).exit_status == 5);
  pair.west.Do({"buffer", "rm", "b"});
}

TEST_CASE(
    "a transfer whose destination restarts on its way is known to have failed at its source") {
  Pair pair(kQuick);
  CreateBuffer(pair.east, "a", kLarge);
  CreateBuffer(pair.west, "b", kLarge);
  Client east = pair.east.Connect();
  const TransferInfo started =
      StartAndSeeRunning(east, {.source = {"", "a", {}, {}}, .destination = {"west", "b", {}, {}}});
  {
    const Frozen frozen(pair.west);
    pair.west.Kill();
  }
  pair.west.Restart();
  const Json ended = pair.east.WaitForTransfer(started.id.str(), "FAILED");
  CHECK(ended.at("error").at("code") == "ABORTED");
  CHECK(ended.at("error").at("reason") == "PEER_RESTARTED");
  CHECK(ended.at("role") == "source");
  CHECK(pair.east.Run({"transfer", "watch", started.id.str()}).exit_status == 10);
  pair.east.Do({"buffer", "rm", "a"});
}
}  // namespace recovery_test
