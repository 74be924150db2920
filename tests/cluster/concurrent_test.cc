// Many transfers at a time.
#include <string>
#include <vector>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"

namespace concurrent_test {
namespace {

using onecopy::Client;
using onecopy::HostBuffer;
using onecopy::TransferId;
using onecopy::TransferInfo;
using onecopy::TransferRequest;
using namespace onecopy::testing;

constexpr unsigned kTransfers = 200;
constexpr uint64_t kPitch = 400'000;  // from one transfer's bytes to the next one's

// Lengths of which none is like its neighbour's, up to many chunks.
uint64_t BytesOf(unsigned i) { return 1 + uint64_t{i} * 1'999 % (kPitch - 64); }

struct Lane {
  Client* from;
  const HostBuffer* source;
  Client* to;
  const HostBuffer* destination;
  const char* path;
};

// Memory on both nodes to send from and to receive into.
struct Fleet {
  explicit Fleet(const std::string& config)
      : pair(config),
        // By gRPC, whose receipts are returned whole.
        east(pair.east.Connect(false)),
        west(pair.west.Connect(false)),
        east_out(Filled(east, "out", kTransfers * kPitch, 1)),
        west_out(Filled(west, "out", kTransfers * kPitch, 2)),
        east_in(Must(east.CreateHostBuffer("in", kTransfers * kPitch))),
        west_in(Must(west.CreateHostBuffer("in", kTransfers * kPitch))) {}

  Lane LaneOf(unsigned i) {
    switch (i % 8) {
      case 0:
        return {&east, &east_out, &west, &west_in, "tcp-direct"};
      case 1:
        return {&west, &west_out, &east, &east_in, "tcp-direct"};
      case 2:
        return {&east, &east_out, &west, &west_in, "tcp-staged"};
      case 3:
        return {&west, &west_out, &east, &east_in, "tcp-staged"};
      case 4:
        return {&east, &east_out, &east, &east_in, "local"};
      case 5:
        return {&west, &west_out, &west, &west_in, "peer-bounce"};
      case 6:
        return {&east, &east_out, &west, &west_in, "tcp-bounce"};
      default:
        return {&east, &east_out, &east, &east_in, "peer-bounce"};
    }
  }

  // Starts all of them before it waits for any, and checks each.
  void RunAll(unsigned seed) {
    std::memset(east_in.data(), 0, east_in.bytes());
    std::memset(west_in.data(), 0, west_in.bytes());
    std::vector<std::pair<Client*, onecopy::TransferId>> started;
    for (unsigned i = 0; i < kTransfers; ++i) {
      const Lane lane = LaneOf(i);
      Client* initiator = (i / 8 + seed) % 2 == 0 ? lane.from : lane.to;
      TransferRequest request;
      request.source = lane.source->endpoint(i * kPitch + 3, BytesOf(i));
      request.destination = lane.destination->endpoint(i * kPitch + 1, BytesOf(i));
      request.policy.path_glob = lane.path;
      request.checksum = i % 3 == 0;
      started.emplace_back(initiator, Must(initiator->StartTransfer(request)).id);
    }
    for (unsigned i = 0; i < kTransfers; ++i) {
      INFO("transfer " << i << ", " << LaneOf(i).path << ", " << BytesOf(i) << " bytes");
      const TransferInfo done = Must(started[i].first->AwaitTransfer(started[i].second));
      REQUIRE_OK(onecopy::OutcomeOf(done));
      CheckReceipt(done, {LaneOf(i).path, BytesOf(i), i % 3 == 0});
      CheckBytes(i);
    }
  }

  void CheckBytes(unsigned i) {
    const Lane lane = LaneOf(i);
    const uint64_t seed = lane.source == &east_out ? 1 : 2;
    const std::byte* data = lane.destination->data() + i * kPitch;
    CHECK(data[0] == std::byte{0});
    CHECK(IsPayload(data + 1, BytesOf(i), seed, i * kPitch + 3));
    CHECK(data[1 + BytesOf(i)] == std::byte{0});
  }

  // Nothing is held any more: no buffer is in use and each can be removed as it is.
  void CheckNothingIsHeld() {
    for (Client* client : {&east, &west}) {
      for (const char* name : {"in", "out"}) {
        // A source lets go once it has heard that the destination has finished.
        WaitUntil(std::string(name) + " of " + client->node() + " is in no transfer's use",
                  [&] { return Must(client->GetBuffer("", name)).transfers == 0; });
        Must(client->DeleteBuffer(name));
      }
      CHECK(Must(client->ListBuffers()).empty());
    }
  }

  Pair pair;
  Client east;
  Client west;
  HostBuffer east_out;
  HostBuffer west_out;
  HostBuffer east_in;
  HostBuffer west_in;
};

}  // namespace

TEST_CASE("200 transfers at a time, both ways and inside nodes, are all right and leave nothing") {
  Fleet fleet("");
  fleet.RunAll(0);
  fleet.RunAll(1);  // the same memory serves again
  fleet.CheckNothingIsHeld();
}

TEST_CASE(
    "with the fewest slots that a daemon may have, 200 transfers still end, and give all back") {
  // Two for sending and two for receiving: had a transfer kept one, those after it would wait for
  // ever, and the second round with them.
  Fleet fleet("[staging]\nslots = 4\nslot_bytes = \"64KiB\"\n");
  fleet.RunAll(0);
  fleet.RunAll(1);
  fleet.CheckNothingIsHeld();
}

TEST_CASE("two dozen transfers of thousands of ranges each share one connection") {
  constexpr unsigned kMany = 24;
  constexpr uint64_t kRanges = 4096;
  constexpr uint64_t kRangeBytes = 16 << 10;
  constexpr uint64_t kApart = kRangeBytes + 64;  // so that none joins its neighbour
  Pair pair;
  Client east = pair.east.Connect();
  Client west = pair.west.Connect();
  const HostBuffer source = Filled(east, "a", kRanges * kApart, 1);
  std::vector<TransferId> started;
  for (unsigned i = 0; i < kMany; ++i) {
    const std::string name = "b" + std::to_string(i);
    Must(west.CreateBuffer({.name = name, .bytes = kRanges * kRangeBytes, .memory = "host"}));
    TransferRequest request;
    request.source = {"east", "a", {}, {}};
    request.destination = {"", name, {}, {}};
    request.policy.path_glob = "tcp-direct";
    request.checksum = true;
    for (uint64_t r = 0; r < kRanges; ++r) {
      // In the opposite order.
      request.ranges.push_back(
          {{r * kApart, kRangeBytes, 0, 1}, {(kRanges - 1 - r) * kRangeBytes, kRangeBytes, 0, 1}});
    }
    started.push_back(Must(west.StartTransfer(request)).id);
  }
  for (const TransferId& id : started) {
    const TransferInfo done = Must(west.AwaitTransfer(id));
    REQUIRE_OK(onecopy::OutcomeOf(done));
    CHECK(done.receipt.ranges == kRanges);
    CHECK(done.receipt.attempts.size() == 1);
  }
}
}  // namespace concurrent_test
