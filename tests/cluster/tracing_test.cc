// A request's traceparent goes with its transfer to every node.
#include <sstream>
#include <string>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/cluster/pair.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace tracing_test {
namespace {

using namespace onecopy;
using namespace onecopy::testing;

const std::string kTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
constexpr uint64_t kBytes = 100'000;

// east has the bytes, west gets them, north asks.
struct Three : ThreeNodes {
  Three() {
    for (Node* node : {&east, &west}) {
      for (const char* name : {"a", "b"}) {
        node->Do({"buffer", "create", name, "--size", std::to_string(kBytes)});
      }
    }
  }
};

// Waits until the node has logged the transfer's end, and returns that line.
std::string EndOf(const Node& node, const std::string& id) {
  const std::string begin = "transfer ended transfer=" + id + " ";
  std::string line;
  WaitUntil(node.name() + " has logged the end of " + id, [&] {
    const std::string log = node.Log();
    const size_t at = log.find(begin);
    const size_t end = log.find('\n', at);
    if (at == std::string::npos || end == std::string::npos) return false;
    line = log.substr(at, end - at);
    return true;
  });
  return line;
}

bool EndsWithTrace(const std::string& line) { return line.ends_with(" trace=" + kTrace); }

// How many transfers that this node has logged the end of had the trace.
size_t TracedEnds(const Node& node) {
  std::istringstream log(node.Log());
  size_t count = 0;
  for (std::string line; std::getline(log, line);) {
    if (line.find("transfer ended ") != std::string::npos && EndsWithTrace(line)) ++count;
  }
  return count;
}

bool WentByRing(Client& client, const TransferInfo& transfer) {
  return Must(client.GetTransfer(transfer.id)).receipt.evidence.contains("submitted");
}

}  // namespace

TEST_CASE("all nodes of a transfer log its trace and tell it") {
  Three three;
  const Json receipt =
      three.north.Do({"cp", "east:a", "west:b", "--trace", kTrace, "--path", "tcp-direct"});
  CHECK(receipt.at("trace") == kTrace);
  const std::string id = receipt.at("id");
  for (const Node* node : {&three.east, &three.west, &three.north}) {
    INFO(node->name());
    CHECK(EndsWithTrace(EndOf(*node, id)));
    CHECK(node->WaitForTransfer(id, "SUCCEEDED").at("trace") == kTrace);
  }
}

TEST_CASE("without a trace there is none") {
  Pair pair;
  for (const char* name : {"a", "b"}) {
    pair.west.Do({"buffer", "create", name, "--size", std::to_string(kBytes)});
  }
  const Json receipt = pair.west.Do({"cp", "a", "b", "--checksum"});
  CHECK_FALSE(receipt.contains("trace"));
  CHECK(EndOf(pair.west, receipt.at("id")).find("trace") == std::string::npos);
}

TEST_CASE("a trace that is nonsense is refused, and nothing moves") {
  Node node("east");
  for (const char* name : {"a", "b"}) {
    node.Do({"buffer", "create", name, "--size", std::to_string(kBytes)});
  }
  for (const char* text : {"nonsense", "00-0-0-0", "ff-0af7651916cd43dd8448eb211c80319c-b7ad-01"}) {
    const CommandResult refused = node.Run({"cp", "a", "b", "--trace", text});
    CHECK(refused.reason() == reasons::kBadArgument);
    CHECK(refused.message().find("traceparent") != std::string::npos);
  }
  CHECK(node.Do({"transfer", "ls"}).empty());
}

TEST_CASE("files and broadcasts carry a trace") {
  Three three;
  const TempFolder folder;
  const std::string file = (folder.path() / "payload").string();
  WriteFile(file, Payload(kBytes));
  // By the daemon itself; by this process, in windows; back.
  for (const std::vector<std::string>& ends :
       std::vector<std::vector<std::string>>{{file, "west:b"},
                                             {file, "west:b", "--path", "tcp-*"},
                                             {"west:b", (folder.path() / "x").string()}}) {
    std::vector<std::string> command = {"cp", "--trace", kTrace};
    command.insert(command.end(), ends.begin(), ends.end());
    const Json receipt = three.east.Do(command);
    CHECK(receipt.at("trace") == kTrace);
    for (const Node* node : {&three.east, &three.west}) {
      CHECK(EndsWithTrace(EndOf(*node, receipt.at("id"))));
    }
  }
  const size_t before[] = {TracedEnds(three.east), TracedEnds(three.west)};
  three.north.Do({"cp", "east:a", "{east,west}:b", "--trace", kTrace});
  WaitUntil("both copies are logged", [&] {
    return TracedEnds(three.east) > before[0] && TracedEnds(three.west) > before[1];
  });
}

TEST_CASE("of a transfer of several buffers, both nodes log the whole one's trace") {
  Three three;
  Client client = three.north.Connect();
  TransferRequest request;
  request.source = {.node = "east", .buffer = "a"};
  request.destination = {.node = "west", .buffer = "a"};
  request.more_sources = {{.node = "east", .buffer = "b"}};
  request.more_destinations = {{.node = "west", .buffer = "b"}};
  request.ranges = {{{0, 100}, {0, 100}, 0, 0}, {{0, 100}, {0, 100}, 1, 1}};
  request.trace = *TraceContext::Parse(kTrace);
  const TransferInfo ended = Must(client.RunTransfer(request));
  CHECK(ended.trace == request.trace);
  for (const Node* node : {&three.east, &three.west, &three.north}) {
    CHECK(EndsWithTrace(EndOf(*node, ended.id.str())));
  }
}

TEST_CASE("what goes by a ring without a trace goes by gRPC with one") {
  Node node("east");
  Client client = node.Connect();
  HostBuffer from = Filled(client, "a", 4096, 1);
  HostBuffer to = Must(client.CreateHostBuffer("b", 4096));
  TransferRequest request;
  request.source.buffer = "a";
  request.destination.buffer = "b";
  for (int i = 0; i < 3; ++i) Must(client.RunTransfer(request));
  CHECK(WentByRing(client, Must(client.RunTransfer(request))));
  request.trace = *TraceContext::Parse(kTrace);
  const TransferInfo traced = Must(client.RunTransfer(request));
  CHECK(traced.trace == request.trace);
  CHECK_FALSE(WentByRing(client, traced));
  CHECK(IsPayload(to.data(), 4096, 1));
}

}  // namespace tracing_test
