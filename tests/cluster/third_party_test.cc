// A node orders a transfer between two others.
#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"

namespace third_party_test {
namespace {

using onecopy::Client;
using onecopy::TransferInfo;
using onecopy::TransferState;
using namespace onecopy::testing;

constexpr uint64_t kLarge = uint64_t{2} << 30;  // takes long enough to be stopped on its way

struct Three : ThreeNodes {
  void CreateBuffers(uint64_t bytes) {
    const std::string size = std::to_string(bytes);
    east.Do({"buffer", "create", "a", "--size", size, "--memory", "host"});
    west.Do({"buffer", "create", "b", "--size", size, "--memory", "host"});
  }
};

// The transfer as this node lists it; null where it does not.
Json Listed(const Node& node, const std::string& id) {
  for (const Json& transfer : node.Do({"transfer", "ls"})) {
    if (transfer.at("id") == id) return transfer;
  }
  return nullptr;
}

void CheckEverywhere(const Three& three, const std::string& id, const std::string& state) {
  const std::pair<const Node*, const char*> roles[] = {
      {&three.east, "source"}, {&three.west, "destination"}, {&three.north, "initiator"}};
  const Json decided = three.west.WaitForTransfer(id, state);
  for (const auto& [node, role] : roles) {
    INFO(node->name());
    const Json shown = node->WaitForTransfer(id, state);
    CHECK(shown.at("role") == role);
    CHECK(shown.at("owner") == decided.at("owner"));
    for (const char* key : {"source", "destination", "bytes", "path", "copies", "steps", "lanes",
                            "checksum", "refused", "attempts", "error"}) {
      INFO(key);
      CHECK(shown.at(key) == decided.at(key));
    }
    CHECK(Listed(*node, id) == shown);
    const std::string line = "transfer ended transfer=" + id + " role=" + role +
                             " owner=" + shown.at("owner").get<std::string>() + " ";
    WaitUntil(node->name() + " has logged " + line,
              [&, node = node] { return node->Log().find(line) != std::string::npos; });
  }
}

}  // namespace

TEST_CASE("a third node orders a transfer and gets its receipt") {
  Three three;
  three.CreateBuffers(100'000);
  const std::string payload = Payload(100'000);
  three.east.Do({"cp", "-", "a"}, payload);
  for (const char* path : {"tcp-direct", "tcp-bounce", "tcp-staged"}) {
    const Json receipt =
        three.north.Do({"cp", "east:a@3+70001", "west:b@5", "--checksum", "--path", path});
    CheckReceipt(receipt, {path, 70'001, true});
    CHECK(receipt.at("source") == "east:a@3+70001");
    CHECK(receipt.at("destination") == "west:b@5+70001");
    CHECK(Contents(three.west, "b@5+70001") == payload.substr(3, 70'001));
    CheckEverywhere(three, receipt.at("id"), "SUCCEEDED");
  }
  // Inside a node that is another one than the initiator's.
  CheckReceipt(three.north.Do({"cp", "east:a@0+100", "east:a@200"}), {"local", 100, false});
}

TEST_CASE("a transfer that was ordered by a third node and left alone can be watched there") {
  Three three;
  three.CreateBuffers(50'000'000);
  const Json started = three.north.Do({"cp", "east:a", "west:b", "--checksum", "--detach"});
  const std::string id = started.at("id");
  CHECK(started.at("role") == "initiator");
  const Json seen = three.north.Do({"transfer", "watch", id});
  CheckReceipt(seen, {"tcp-direct", 50'000'000, true});
  CheckEverywhere(three, id, "SUCCEEDED");
  CHECK(three.north.Do({"transfer", "cancel", id}).at("state") == "SUCCEEDED");
}

TEST_CASE("the initiator cancels, and all three nodes agree") {
  Three three;
  three.CreateBuffers(kLarge);
  Client north = three.north.Connect();
  const TransferInfo started = StartAndSeeRunning(
      north, {.source = {"east", "a", {}, {}}, .destination = {"west", "b", {}, {}}});
  Frozen east(three.east);  // what it has not sent yet cannot arrive
  const TransferInfo asked = Must(north.CancelTransfer(started.id));
  CHECK(asked.state != TransferState::kSucceeded);
  east.Thaw();
  const TransferInfo ended = Must(north.AwaitTransfer(started.id));
  CHECK(ended.state == TransferState::kCancelled);
  CHECK(ended.error.code() == onecopy::Code::kCancelled);
  CHECK(ended.bytes_done < kLarge);
  CheckEverywhere(three, started.id.str(), "CANCELLED");
  // The command says so, too, by its exit status.
  CHECK(three.north.Run({"transfer", "watch", started.id.str()}).exit_status == 130);
  // Nothing is held.
  three.east.Do({"buffer", "rm", "a"});
  three.west.Do({"buffer", "rm", "b"});
}

TEST_CASE("a policy that the two nodes cannot meet is refused before a byte moves") {
  Three three;
  three.CreateBuffers(4096);
  three.east.Do({"cp", "-", "a"}, Payload(4096));
  for (const std::vector<std::string>& policy : std::vector<std::vector<std::string>>{
           {"--path", "rdma-direct"}, {"--at-most", "2"}, {"--path", "local"}}) {
    std::vector<std::string> arguments = {"cp", "east:a", "west:b"};
    arguments.insert(arguments.end(), policy.begin(), policy.end());
    const CommandResult refused = three.north.Run(arguments);
    CheckRefused(refused, 7, "FAILED_PRECONDITION", "POLICY_UNMET");
    bool rdma = false;
    for (const Json& refusal : refused.json["error"]["refused"]) {
      rdma = rdma || (refusal["path"] == "rdma-direct" && refusal["reason"] == "NO_RDMA_DEVICE");
    }
    CHECK(rdma);
  }
  for (const Node* node : {&three.west, &three.north}) {
    CHECK(node->Do({"transfer", "ls"}).empty());
  }
  CHECK(Contents(three.west, "b") == std::string(4096, '\0'));
}

TEST_CASE("what the third node cannot know is refused with its reason") {
  Three three;
  three.CreateBuffers(4096);
  const auto run = [&](const char* source, const char* destination) {
    return three.north.Run({"cp", source, destination});
  };
  CheckRefused(run("east:none", "west:b"), 3, "NOT_FOUND", "BUFFER_NOT_FOUND");
  CheckRefused(run("east:a", "west:none"), 3, "NOT_FOUND", "BUFFER_NOT_FOUND");
  CheckRefused(run("south:a", "west:b"), 3, "NOT_FOUND", "PEER_NOT_FOUND");
  CheckRefused(run("east:a@1+4096", "west:b"), 2, "OUT_OF_RANGE", "RANGE_OUT_OF_BUFFER");
  CheckRefused(run("east:a", "west:b@1"), 2, "OUT_OF_RANGE", "RANGE_OUT_OF_BUFFER");
  CheckRefused(run("a", "west:b"), 3, "NOT_FOUND", "BUFFER_NOT_FOUND");
}
}  // namespace third_party_test
