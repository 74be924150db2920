// A buffer's bytes to another place of the same buffer.
#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"

namespace self_transfer_test {
namespace {

using onecopy::Client;
using onecopy::HostBuffer;
using onecopy::Status;
using namespace onecopy::testing;

// A node with a buffer "a" of Payload(10'000).
struct OneBuffer {
  Node east{"east"};
  const std::string payload = Payload(10'000);
  OneBuffer() {
    east.Do({"buffer", "create", "a", "--size", "10000", "--memory", "host"});
    east.Do({"cp", "-", "a"}, payload);
  }
};

}  // namespace

TEST_CASE("disjoint ranges of one buffer are moved in both directions, under either name") {
  for (const char* path : {"local", "peer-bounce"}) {
    OneBuffer one;
    std::string expected = one.payload;
    CheckReceipt(one.east.Do({"cp", "a@1+4000", "a@5001", "--path", path, "--checksum"}),
                 {path, 4000, true});
    expected.replace(5001, 4000, expected.substr(1, 4000));
    CHECK(Contents(one.east, "a") == expected);
    CheckReceipt(one.east.Do({"cp", "east:a@9000+1000", "a@17", "--path", path, "--checksum"}),
                 {path, 1000, true});
    expected.replace(17, 1000, expected.substr(9000, 1000));
    CheckReceipt(one.east.Do({"cp", "a@3+7", "east:a@100+7", "--path", path}), {path, 7, false});
    expected.replace(100, 7, expected.substr(3, 7));
    CHECK(Contents(one.east, "a") == expected);
  }
}

TEST_CASE("adjacent ranges have no byte in common and are moved") {
  OneBuffer one;
  one.east.Do({"cp", "a@0+5000", "east:a@5000"});
  const std::string half = one.payload.substr(0, 5000);
  CHECK(Contents(one.east, "a") == half + half);
  one.east.Do({"cp", "a@5000+5000", "a@0"});
  CHECK(Contents(one.east, "a") == half + half);
}

TEST_CASE("ranges of one buffer that share a byte are refused, and nothing changes") {
  OneBuffer one;
  const std::pair<const char*, const char*> overlaps[] = {
      {"a", "a"},                   // the whole onto itself
      {"a@7+100", "a@7+100"},       // a range onto itself
      {"a@0+5000", "a@4999"},       // by the last byte
      {"a@4999+5001", "a@0+5001"},  // by the first one
      {"a@0+5", "east:a@4+5"},      // under its other name
      {"east:a@100+100", ":a@150+100"},
      {"a@100+10", "a@105+10"}};
  for (const auto& [source, destination] : overlaps) {
    for (const char* path : {"*", "local", "peer-bounce"}) {
      INFO(source << " -> " << destination << " by " << path);
      CheckRefused(one.east.Run({"cp", source, destination, "--path", path}), 2, "INVALID_ARGUMENT",
                   "RANGES_OVERLAP");
    }
    CheckRefused(one.east.Run({"explain", source, destination}), 2, "INVALID_ARGUMENT",
                 "RANGES_OVERLAP");
  }
  CHECK(Contents(one.east, "a") == one.payload);
}

TEST_CASE("a client's own memory is moved within itself, by name or by id") {
  Node east("east");
  Client client = east.Connect();
  const HostBuffer buffer = Filled(client, "mine", 8192, 4);
  const std::string id = buffer.info().id;
  auto done = Must(client.RunTransfer({.source = buffer.endpoint(1, 4000),
                                       .destination = {"east", id, 4100, {}},
                                       .checksum = true}));
  CheckReceipt(done, {"local", 4000, true});
  CHECK(IsPayload(buffer.data() + 4100, 4000, 4, 1));
  const Status overlap = client
                             .StartTransfer({.source = buffer.endpoint(1, 4000),
                                             .destination = {"east", id, 4000, {}}})
                             .status();
  CHECK(overlap.code() == onecopy::Code::kInvalidArgument);
  CHECK(overlap.reason() == "RANGES_OVERLAP");
}

TEST_CASE("equal ranges of two buffers are no overlap") {
  Node east("east");
  Client client = east.Connect();
  const HostBuffer one = Filled(client, "one", 8192, 4);
  const HostBuffer two = Must(client.CreateHostBuffer("two", 8192));
  auto done = Must(client.RunTransfer({.source = one.endpoint(), .destination = two.endpoint()}));
  CheckReceipt(done, {"local", 8192, false});
  CHECK(IsPayload(two.data(), 8192, 4));
}
}  // namespace self_transfer_test
