// One payload into buffers of many nodes, each of which sends it on.
#include <atomic>
#include <functional>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "onecopy/broadcast.h"
#include "onecopy/reasons.h"
#include "tests/cluster/broadcast_fleet.h"
#include "tests/cluster/pair.h"
#include "tests/support/catch.h"

namespace broadcast_test {
namespace {

using onecopy::BroadcastCopy;
using onecopy::BroadcastRequest;
using onecopy::Client;
using onecopy::Code;
using onecopy::Endpoint;
using namespace onecopy::testing;
namespace reasons = onecopy::reasons;

constexpr uint64_t kBytes = uint64_t{24} << 20;
constexpr uint64_t kPiece = uint64_t{1} << 20;

// On this machine's loopback. Requests have small pieces, and a node that is away is not waited
// for.
struct Fleet : BroadcastFleet {
  explicit Fleet(size_t count, uint64_t bytes = kBytes, const std::string& config = {})
      : BroadcastFleet(count, bytes, [&](size_t) { return NodeOptions{.config = config}; }) {}

  BroadcastRequest Request() const {
    BroadcastRequest request = BroadcastFleet::Request();
    request.piece_bytes = kPiece;
    request.retry_for = {};
    return request;
  }
};

std::map<std::string, uint64_t> Origins(const BroadcastCopy& copy) {
  std::map<std::string, uint64_t> origins;
  for (const auto& each : copy.origins) origins[each.from] = each.bytes;
  return origins;
}

}  // namespace

TEST_CASE("a payload goes from node to node, and leaves its source once") {
  Fleet fleet(4);
  BroadcastRequest request = fleet.Request();
  request.checksum = true;
  uint64_t last = 0;
  uint64_t total = 0;
  const auto on_update = [&](uint64_t done, uint64_t all) {
    CHECK(done >= last);
    last = done;
    total = all;
  };
  // Most of the transfers are between two other nodes than the one that orders them.
  const auto copies = Must(fleet.clients[0].Broadcast(request, on_update));
  REQUIRE(copies.size() == 3);
  CHECK(total == 3 * kBytes);
  for (size_t i = 0; i < 3; ++i) {
    const BroadcastCopy& copy = copies[i];
    INFO(i);
    REQUIRE_OK(copy.outcome);
    CHECK(copy.destination.node == "n" + std::to_string(i + 1));
    CHECK(copy.bytes == kBytes);
    CHECK(Origins(copy) ==
          std::map<std::string, uint64_t>{{"n" + std::to_string(i) + ":w", kBytes}});
    // The receipts of all pieces, as one: every step has carried every byte.
    REQUIRE_FALSE(copy.receipt.steps.empty());
    for (const auto& step : copy.receipt.steps) CHECK(step.bytes == kBytes);
    CHECK(copy.receipt.seconds > 0);
    CHECK(copy.receipt.path.find(',') == std::string::npos);
    REQUIRE(copy.receipt.checksum);
    CHECK(copy.receipt.checksum->verified);
    CHECK(copy.receipt.checksum->algorithm == "xxh3-128-tree of each 1048576 B");
    CHECK(copy.receipt.checksum->value.empty());
    CHECK(fleet.Has(i + 1));
  }
}

TEST_CASE("a node that orders a broadcast need not be in it") {
  Fleet fleet(4);
  BroadcastRequest request = fleet.Request();
  request.destinations = {Fleet::End(1), Fleet::End(2)};
  for (const BroadcastCopy& copy : Must(fleet.clients[3].Broadcast(request))) {
    REQUIRE_OK(copy.outcome);
  }
  CHECK(fleet.Has(1));
  CHECK(fleet.Has(2));
}

TEST_CASE("a node's buffers are neighbours, and small payloads go to each right from the source") {
  Fleet fleet(3);
  for (size_t i = 0; i < 3; ++i) {
    Must(fleet.clients[i].CreateBuffer({.name = "x", .bytes = kBytes, .memory = "host"}));
  }
  BroadcastRequest request = fleet.Request();
  request.destinations = {
      {"n1", "w", {}, {}}, {"n2", "w", {}, {}}, {"n1", "x", {}, {}}, {"", "x", {}, {}}};
  const auto copies = Must(fleet.clients[0].Broadcast(request));
  CHECK(Origins(copies[0]) == std::map<std::string, uint64_t>{{"n0:x", kBytes}});
  CHECK(Origins(copies[1]) == std::map<std::string, uint64_t>{{"n1:x", kBytes}});
  CHECK(Origins(copies[2]) == std::map<std::string, uint64_t>{{"n1:w", kBytes}});
  CHECK(Origins(copies[3]) == std::map<std::string, uint64_t>{{"n0:w", kBytes}});
  CHECK(copies[2].receipt.path == "local");
  for (const BroadcastCopy& copy : copies) REQUIRE_OK(copy.outcome);

  request.source.offset_bytes = 4096;
  request.source.bytes = 10'000;
  request.piece_bytes = 0;
  for (const BroadcastCopy& copy : Must(fleet.clients[0].Broadcast(request))) {
    REQUIRE_OK(copy.outcome);
    CHECK(Origins(copy) == std::map<std::string, uint64_t>{{"n0:w", 10'000}});
  }
  CHECK(Contents(*fleet.nodes[2], "w@0+10000") == Payload(kBytes, 5).substr(4096, 10'000));
}

TEST_CASE("a node that dies on the way is told of, and the ones behind it get all bytes") {
  Fleet fleet(4, uint64_t{128} << 20);
  BroadcastRequest request = fleet.Request();
  std::atomic<bool> killed = false;
  const auto on_update = [&](uint64_t done, uint64_t) {
    if (done < kBytes || killed.exchange(true)) return;
    fleet.nodes[2]->Kill();
  };
  const auto copies = Must(fleet.clients[0].Broadcast(request, on_update));
  REQUIRE(killed);
  REQUIRE_OK(copies[0].outcome);
  INFO(copies[1].outcome.ToString());
  CHECK(copies[1].outcome.code() == Code::kUnavailable);
  CHECK(copies[1].outcome.message().find("n2:w has ") != std::string::npos);
  CHECK(copies[1].bytes < uint64_t{128} << 20);
  REQUIRE_OK(copies[2].outcome);
  // From n2 as long as it lived, then from the one before it; and why is told.
  uint64_t from = 0;
  bool told = false;
  for (const auto& each : copies[2].origins) {
    from += each.bytes;
    if (each.from == "n2:w") told = !each.left.ok();
  }
  CHECK(from == uint64_t{128} << 20);
  CHECK(Origins(copies[2]).at("n1:w") > 0);
  CHECK((told || !Origins(copies[2]).contains("n2:w")));
  CHECK(fleet.Has(1));
  CHECK(fleet.Has(3));
}

TEST_CASE("a node that is away at the beginning keeps none of the others from getting it") {
  Fleet fleet(4);
  fleet.nodes[1]->Kill();
  fleet.nodes[0]->WaitForPeer("n1", "DISCONNECTED");
  const auto copies = Must(fleet.clients[0].Broadcast(fleet.Request()));
  CHECK(copies[0].outcome.code() == Code::kUnavailable);
  CHECK(copies[0].bytes == 0);
  CHECK(Origins(copies[1]) == std::map<std::string, uint64_t>{{"n0:w", kBytes}});
  CHECK(fleet.Has(2));
  CHECK(fleet.Has(3));
}

TEST_CASE("what can be known before is refused before a byte moves") {
  Fleet fleet(3);
  Client& client = fleet.clients[0];
  Must(fleet.clients[2].CreateBuffer({.name = "short", .bytes = kBytes - 1, .memory = "host"}));
  const auto refused = [&](const BroadcastRequest& request, std::string_view reason,
                           const std::string& names) {
    const auto copies = client.Broadcast(request);
    REQUIRE_FALSE(copies.ok());
    INFO(copies.status().ToString());
    CHECK(copies.status().reason() == reason);
    CHECK(copies.status().ToString().find(names) != std::string::npos);
  };
  BroadcastRequest request = fleet.Request();
  request.destinations.clear();
  refused(request, reasons::kBadArgument, "destination");
  request.destinations = {Fleet::End(1), {"n2", "short", {}, {}}};
  refused(request, reasons::kSizeMismatch, "n2:short");
  request.destinations = {Fleet::End(1), {"n2", "none", {}, {}}};
  refused(request, reasons::kBufferNotFound, "none");
  request.destinations = {Fleet::End(1), Fleet::End(2), Fleet::End(1)};
  refused(request, reasons::kBadArgument, "n1:w is named twice");
  request.destinations = {Fleet::End(1), Fleet::End(0)};
  refused(request, reasons::kBadArgument, "n0:w is the source");
  request.destinations = {Fleet::End(1), {"nowhere", "w", {}, {}}};
  refused(request, reasons::kPeerNotFound, "nowhere");
  request = fleet.Request();
  request.policy.path_glob = "rdma-*";
  refused(request, reasons::kPolicyUnmet, "");
  request = fleet.Request();
  request.source.bytes = 0;
  refused(request, reasons::kBadArgument, "no bytes");
  request.source = {"n0", "none", {}, {}};
  refused(request, reasons::kBufferNotFound, "none");
  request = fleet.Request();
  request.destinations.assign(1025, Fleet::End(1));
  refused(request, reasons::kBadArgument, "1024");
  for (size_t node : {1, 2}) CHECK(Contents(*fleet.nodes[node], "w@0+64") == std::string(64, '\0'));
}

TEST_CASE("however it is divided, all bytes arrive") {
  constexpr uint64_t kOdd = 100'003;
  Fleet fleet(3, kOdd);
  for (const uint64_t piece : {uint64_t{1}, uint64_t{7'777}, kOdd - 1, kOdd, kOdd + 1,
                               std::numeric_limits<uint64_t>::max(), uint64_t{0}}) {
    CAPTURE(piece);
    for (size_t i : {1, 2}) {
      Must(fleet.clients[i].DeleteBuffer("w"));
      Must(fleet.clients[i].CreateBuffer({.name = "w", .bytes = kOdd, .memory = "host"}));
    }
    BroadcastRequest request = fleet.Request();
    request.piece_bytes = piece == 1 ? 100 : piece;
    request.checksum = true;
    const auto copies = Must(fleet.clients[0].Broadcast(request));
    for (const BroadcastCopy& copy : copies) {
      REQUIRE_OK(copy.outcome);
      CHECK(copy.bytes == kOdd);
      CHECK(copy.receipt.checksum->verified);
    }
    for (size_t i : {1, 2}) CHECK(fleet.Has(i));
  }
}

TEST_CASE("names of one memory are seen as one, and lengths that are named are kept") {
  Fleet fleet(2);
  Client& there = fleet.clients[1];
  Must(there.CreateViews({{.name = "v", .range = {"", "w", 0, kBytes}},
                          {.name = "half", .range = {"", "w", kBytes / 2, kBytes / 2}}}));
  BroadcastRequest request = fleet.Request();
  request.destinations = {Fleet::End(1), {"n1", "v", {}, {}}};
  CHECK(fleet.clients[0].Broadcast(request).status().reason() == reasons::kBadArgument);
  request.source.bytes = kBytes / 2;
  request.destinations = {{"n1", "w", 1, {}}, {"n1", "half", {}, {}}};
  CHECK(fleet.clients[0].Broadcast(request).status().reason() == reasons::kBadArgument);
  request.destinations = {{"n1", "w", 0, kBytes}};
  CHECK(fleet.clients[0].Broadcast(request).status().reason() == reasons::kSizeMismatch);
  request.destinations = {{"n1", "w", 0, kBytes / 2}, {"n1", "half", {}, {}}};
  for (const BroadcastCopy& copy : Must(fleet.clients[0].Broadcast(request))) {
    REQUIRE_OK(copy.outcome);
  }
  CHECK(Contents(*fleet.nodes[1], "half") == Payload(kBytes, 5).substr(0, kBytes / 2));
}

TEST_CASE("a callback of the client is told that it may not wait for a broadcast") {
  Fleet fleet(2);
  std::promise<onecopy::Status> told;
  onecopy::TransferRequest one;
  one.source = {"n0", "w", {}, {}};
  one.destination = Fleet::End(1);
  const auto future = Must(fleet.clients[0].RunTransferAsync(
      one, {.on_end = [&](const auto&) {
        told.set_value(fleet.clients[0].Broadcast(fleet.Request()).status());
      }}));
  CHECK(told.get_future().get().reason() == reasons::kCalledFromCallback);
}

TEST_CASE("what a callback throws ends the broadcast") {
  Fleet fleet(3, uint64_t{256} << 20);
  CHECK_THROWS_AS(fleet.clients[0].Broadcast(fleet.Request(),
                                             [](uint64_t done, uint64_t) {
                                               if (done > 0) throw std::bad_function_call();
                                             }),
                  std::bad_function_call);
  WaitUntil("nothing moves any more", [&] {
    for (const Json& transfer : fleet.nodes[0]->Do({"transfer", "ls"})) {
      if (transfer.at("state") == "RUNNING" || transfer.at("state") == "PENDING") return false;
    }
    return true;
  });
}

TEST_CASE("a broadcast that is stopped, or late, ends with all that it began") {
  Fleet fleet(3, uint64_t{1} << 30);
  std::stop_source stop;
  const auto copies = Must(fleet.clients[0].Broadcast(
      fleet.Request(),
      [&](uint64_t done, uint64_t) {
        if (done > 0) stop.request_stop();
      },
      stop.get_token()));
  for (const BroadcastCopy& copy : copies) CHECK(copy.outcome.reason() == reasons::kCancelled);
  BroadcastRequest request = fleet.Request();
  request.deadline = std::chrono::milliseconds(30);
  const auto late = fleet.clients[0].Broadcast(request);
  // Either before a byte has moved, or as the outcome of those that were not done.
  if (late.ok()) {
    CHECK(late->back().outcome.code() == Code::kDeadlineExceeded);
  } else {
    CHECK(late.status().code() == Code::kDeadlineExceeded);
  }
  for (const auto& node : fleet.nodes) {
    for (const Json& buffer : node->Do({"buffer", "ls"})) CHECK(buffer.at("transfers") == 0);
  }
}

TEST_CASE("limits on transfers at a time make a broadcast slower and not fail") {
  Fleet fleet(4, kBytes, "[limits]\ntransfers_per_user = 2\n");
  for (const BroadcastCopy& copy : Must(fleet.clients[0].Broadcast(fleet.Request()))) {
    REQUIRE_OK(copy.outcome);
  }
  for (size_t node : {1, 2, 3}) CHECK(fleet.Has(node));
}

TEST_CASE("cp takes a list of nodes, makes their buffers, and tells of each") {
  Fleet fleet(3);
  const Node& n0 = *fleet.nodes[0];
  const Json done = n0.Do({"cp", "w", "{n1,n2}:new", "--create", "--checksum"});
  REQUIRE(done.at("copies").size() == 2);
  for (const Json& copy : done.at("copies")) {
    CHECK(copy.at("state") == "SUCCEEDED");
    CHECK(copy.at("error") == nullptr);
    CHECK(copy.at("bytes") == kBytes);
    CHECK(copy.at("checksum").at("verified") == true);
    CHECK(copy.at("origins").size() == 1);
    CHECK(copy.at("origins")[0].at("left") == nullptr);
  }
  CHECK(done.at("copies")[1].at("origins")[0].at("from") == "n1:new");
  CHECK(Contents(*fleet.nodes[2], "new") == Payload(kBytes, 5));
  // --also is the same; ranges are each end's own.
  n0.Do({"cp", "w@0+100", "n1:w@50", "--also", "n2:w@60"});
  CHECK(Contents(*fleet.nodes[2], "w@60+100") == Payload(kBytes, 5).substr(0, 100));
  const CommandResult text =
      RunCommand("onecopy", {"--run-dir", n0.run_dir(), "cp", "w", "{n1,n2}:w"});
  CHECK(text.exit_status == 0);
  CHECK(text.out.find("n1:w") < text.out.find("n2:w"));
  CHECK(text.out.find("from      n1:w, 24 MiB") != std::string::npos);

  const auto refused = [&](std::vector<std::string> arguments, const std::string& names) {
    arguments.insert(arguments.begin(), "cp");
    const CommandResult result = n0.Run(arguments);
    INFO(result.err << result.out);
    CHECK(result.exit_status != 0);
    REQUIRE(result.json.is_object());  // one document
    CHECK(result.json.contains("error"));
    CHECK(result.message().find(names) != std::string::npos);
  };
  refused({"w", "{n1,n2:w"}, "without }:");
  refused({"w", "{n1,}:w"}, "without a node's name");
  refused({"w", "{}:w"}, "without a node's name");
  refused({"w", "{n1,n2}:w", "--detach"}, "--detach");
  refused({"w", "{n1,n2}:more", "--create=cuda:77"}, "");
  CHECK(fleet.nodes[1]->Run({"buffer", "show", "more"}).reason() == reasons::kBufferNotFound);
  // What was made goes again where the copy fails.
  refused({"w", "{n1,n2}:more", "--create", "--path", "rdma-*"}, "");
  CHECK(fleet.nodes[1]->Run({"buffer", "show", "more"}).reason() == reasons::kBufferNotFound);
}

}  // namespace broadcast_test
