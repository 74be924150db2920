// Requests that are repeated, that only ask, and lists longer than a page.
#include <future>
#include <set>
#include <string>
#include <vector>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"

namespace requests_test {
namespace {

using onecopy::Client;
using onecopy::TransferInfo;
using onecopy::TransferRequest;
using namespace onecopy::testing;

struct WithBuffers {
  Pair pair;
  Client east = pair.east.Connect();
  Client west = pair.west.Connect();
  const std::string payload = Payload(4096);

  WithBuffers() {
    for (const char* name : {"a", "c"}) Create(pair.east, name);
    Create(pair.west, "b");
    pair.east.Do({"cp", "-", "a"}, payload);
  }
  static void Create(const Node& node, const std::string& name) {
    node.Do({"buffer", "create", name, "--size", "4096", "--memory", "host"});
  }
};

TransferRequest ToWest(const std::string& request_id) {
  return {
      .source = {"", "a", {}, {}}, .destination = {"west", "b", {}, {}}, .request_id = request_id};
}

size_t TransfersOf(Client& client) { return Must(client.ListTransfers()).size(); }

}  // namespace

TEST_CASE("one request id starts one transfer, however often it is asked for") {
  WithBuffers with;
  const size_t before = TransfersOf(with.east);
  const size_t before_west = TransfersOf(with.west);
  const TransferInfo first = Must(with.east.RunTransfer(ToWest("job-1")));
  CheckReceipt(first, {"tcp-direct", 4096, false});
  for (int i = 0; i < 3; ++i) {
    const TransferInfo again = Must(with.east.StartTransfer(ToWest("job-1")));
    CHECK(again.id == first.id);
    CheckReceipt(again, {"tcp-direct", 4096, false});
  }
  // Another client of the same user, too.
  Client other = with.pair.east.Connect();
  CHECK(Must(other.StartTransfer(ToWest("job-1"))).id == first.id);
  CHECK(TransfersOf(with.east) == before + 1);
  CHECK(TransfersOf(with.west) == before_west + 1);
  CHECK(Must(with.east.RunTransfer(ToWest("job-2"))).id != first.id);
  CHECK(Must(with.east.RunTransfer(ToWest(""))).id != Must(with.east.RunTransfer(ToWest(""))).id);
}

TEST_CASE("one request id starts one transfer though many ask at the same time") {
  WithBuffers with;
  const size_t before = TransfersOf(with.east);
  std::vector<std::future<onecopy::Result<TransferInfo>>> asked;
  for (int i = 0; i < 16; ++i) {
    asked.push_back(
        std::async(std::launch::async, [&] { return with.east.StartTransfer(ToWest("job-1")); }));
  }
  std::set<std::string> ids;
  for (auto& answer : asked) ids.insert(Must(answer.get()).id.str());
  CHECK(ids.size() == 1);
  CHECK(TransfersOf(with.east) == before + 1);
}

TEST_CASE("a request id that comes with another request is refused") {
  WithBuffers with;
  Must(with.east.RunTransfer(ToWest("job-1")));
  TransferRequest different = ToWest("job-1");
  different.source.offset_bytes = 1;
  const onecopy::Status refused = with.east.StartTransfer(different).status();
  CHECK(refused.reason() == "REQUEST_ID_REUSED");
  CHECK(refused.code() == onecopy::Code::kInvalidArgument);
}

TEST_CASE("what only asks moves nothing and leaves no transfer") {
  WithBuffers with;
  const size_t before = TransfersOf(with.east);
  const Json explained = with.pair.east.Do({"explain", "a", "west:b"});
  CHECK(explained.at("path") == "tcp-direct");
  CHECK(explained.at("copies") == 3);
  CHECK(explained.at("steps").size() == 3);
  CHECK(explained.at("refused").size() >= 4);
  CHECK(with.pair.east.Do({"cp", "a", "west:b", "--dry-run"}) == explained);
  CHECK(
      with.pair.east.Do({"cp", "a", "west:b", "--dry-run", "--path", "tcp-staged"}).at("copies") ==
      5);
  CHECK(Must(with.east.PlanTransfer(ToWest(""))).path == "tcp-direct");
  CHECK(with.pair.east.Do({"explain", "a", "c"}).at("path") == "local");
  CheckRefused(with.pair.east.Run({"explain", "a", "west:b@1"}), 2, "OUT_OF_RANGE",
               "RANGE_OUT_OF_BUFFER");
  CheckRefused(with.pair.east.Run({"cp", "a", "west:b", "--dry-run", "--at-most", "1"}), 7,
               "FAILED_PRECONDITION", "POLICY_UNMET");
  CHECK(TransfersOf(with.east) == before);
  CHECK(TransfersOf(with.west) == 0);
  CHECK(Contents(with.pair.west, "b") == std::string(4096, '\0'));
  CHECK(Contents(with.pair.east, "c") == std::string(4096, '\0'));
}

TEST_CASE("lists go beyond one page, the newest transfer first") {
  constexpr size_t kMany = 250;  // a page has 100
  WithBuffers with;
  const size_t before = TransfersOf(with.east);
  std::vector<std::string> ids;
  for (size_t i = 0; i < kMany; ++i) {
    ids.push_back(
        Must(with.east.StartTransfer({.source = {"", "a", 0, 8}, .destination = {"", "c", 16, 8}}))
            .id.str());
  }
  const std::vector<TransferInfo> listed = Must(with.east.ListTransfers());
  REQUIRE(listed.size() == before + kMany);
  for (size_t i = 0; i < kMany; ++i) CHECK(listed[i].id.str() == ids[kMany - 1 - i]);
  CHECK(with.pair.east.Do({"transfer", "ls"}).size() == before + kMany);

  std::set<std::string> names;
  for (size_t i = 0; i < 205; ++i) {
    const std::string name = "many-" + std::to_string(i);
    names.insert(name);
    Must(with.west.CreateBuffer({.name = name, .bytes = 1, .memory = "host"}));
  }
  names.insert("b");
  std::set<std::string> seen;
  for (const auto& buffer : Must(with.east.ListBuffers("west"))) seen.insert(buffer.name);
  CHECK(seen == names);
}

TEST_CASE("as many ended transfers stay known as the configuration says") {
  Node east("east", {.config = "[transfers]\nkeep = 5\n"});
  WithBuffers::Create(east, "a");
  Client client = east.Connect();
  std::vector<onecopy::TransferId> ids;
  for (int i = 0; i < 8; ++i) {
    ids.push_back(
        Must(client.RunTransfer({.source = {"", "a", 0, 8}, .destination = {"", "a", 16, 8}})).id);
  }
  CHECK(TransfersOf(client) == 5);
  CHECK(client.GetTransfer(ids.front()).status().reason() == "TRANSFER_NOT_FOUND");
  CheckReceipt(Must(client.GetTransfer(ids.back())), {"local", 8, false});
}

TEST_CASE("who asks for a plan hears a measured rate, whichever node makes the plan") {
  WithBuffers with;
  for (const Json& plan : {with.pair.east.Do({"explain", "a", "west:b"}),
                           with.pair.east.Do({"explain", "west:b", "a"}),
                           with.pair.west.Do({"cp", "east:a", "b", "--dry-run"})}) {
    INFO(plan.dump(2));
    CHECK(plan.at("path") == "tcp-direct");
    CHECK(plan.at("measured") == true);
    CHECK(plan.at("estimated_bytes_per_second") > 0);
  }
}

TEST_CASE(
    "a request whose transfer is not known any more is refused rather than carried out again") {
  Node east("east", {.config = "[transfers]\nkeep = 5\n"});
  WithBuffers::Create(east, "a");
  Client client = east.Connect();
  const auto run = [&](const std::string& request_id) {
    return client.RunTransfer(
        {.source = {"", "a", 0, 8}, .destination = {"", "a", 16, 8}, .request_id = request_id});
  };
  Must(run("job"));
  for (int i = 0; i < 6; ++i) Must(run("other-" + std::to_string(i)));
  const size_t before = TransfersOf(client);
  const onecopy::Status again = run("job").status();
  CHECK(again.code() == onecopy::Code::kAlreadyExists);
  CHECK(again.reason() == "REQUEST_FORGOTTEN");
  CHECK(TransfersOf(client) == before);
}
}  // namespace requests_test
