// Transfers that share a wire which is slower than they are.
#include <chrono>
#include <vector>

#include "tests/cluster/pair.h"
#include "tests/support/catch.h"
#include "tests/support/wire.h"

namespace slow_wire_test {
namespace {

using onecopy::Client;
using onecopy::OutcomeOf;
using onecopy::RangePair;
using onecopy::TransferId;
using onecopy::TransferInfo;
using onecopy::TransferRequest;
using onecopy::TransferState;
using namespace onecopy::testing;

constexpr uint64_t kMegabits = 100;
constexpr uint64_t kBytes = uint64_t{24} << 20;  // two seconds on the wire
constexpr int kNeighbours = 4;

NodeOptions OptionsAt(const Wire& wire, Wire::End end, std::vector<std::string> peers = {}) {
  const std::string address = wire.Address(end) + ":0";
  return {
      .peers = std::move(peers),
      .config = "insecure = true\nuid_domain = \"slow\"\n[peers.\"*\"]\nuid_domain = \"slow\"\n",
      .listen = address,
      .lanes = address,
      .in_child = wire.Inside(end)};
}

// East reads from west, over a wire of little bandwidth. Each transfer has buffers of its own.
struct Rig {
  Wire wire{kMegabits};
  Node west{"west", OptionsAt(wire, Wire::End::kWest)};
  Node east{"east", OptionsAt(wire, Wire::End::kEast, {west.AsPeer()})};
  Client in_west = west.Connect();
  Client in_east = east.Connect();

  Rig() {
    east.WaitForPeer("west");
    west.WaitForPeer("east");
  }
  TransferId Start(const std::string& name, uint64_t bytes) {
    Must(in_west.CreateBuffer({.name = name, .bytes = bytes, .memory = "host"}));
    Must(in_east.CreateBuffer({.name = name, .bytes = bytes, .memory = "host"}));
    TransferRequest request;
    request.source = {"west", name, {}, {}};
    request.destination = {"east", name, {}, {}};
    request.policy.path_glob = "tcp-direct";
    request.checksum = true;
    return Must(in_east.StartTransfer(request)).id;
  }
};

}  // namespace

TEST_CASE("cancelling one transfer on a slow wire harms no neighbour") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  Rig rig;
  std::vector<TransferId> neighbours;
  const TransferId cancelled = rig.Start("cancelled", kBytes);
  for (int i = 0; i < kNeighbours; ++i) {
    neighbours.push_back(rig.Start("kept" + std::to_string(i), kBytes));
  }
  SeeRunning(rig.in_east, cancelled);
  for (const TransferId& id : neighbours) SeeRunning(rig.in_east, id);
  Must(rig.in_east.CancelTransfer(cancelled));
  CHECK(Must(rig.in_east.AwaitTransfer(cancelled)).state == TransferState::kCancelled);
  for (const TransferId& id : neighbours) {
    const TransferInfo ended = Must(rig.in_east.AwaitTransfer(id));
    INFO(ended.error.ToString());
    CHECK(ended.state == TransferState::kSucceeded);
    CHECK(ended.receipt.attempts.size() == 1);
  }
}

TEST_CASE("a small transfer on a slow wire does not wait for the bulk beside it") {
  if (const std::string why = Wire::WhyNot(); !why.empty()) ONECOPY_SKIP(why);
  Rig rig;
  std::vector<TransferId> bulk;
  for (int i = 0; i < kNeighbours; ++i) {
    bulk.push_back(rig.Start("bulk" + std::to_string(i), kBytes));
  }
  for (const TransferId& id : bulk) SeeRunning(rig.in_east, id);
  const TransferId small = rig.Start("small", 4096);
  const TransferInfo ended = Must(rig.in_east.AwaitTransfer(small));
  REQUIRE_OK(OutcomeOf(ended));
  // Each of the others has most of its bytes before it.
  for (const TransferId& id : bulk) {
    CHECK_FALSE(onecopy::IsFinal(Must(rig.in_east.GetTransfer(id)).state));
  }
  for (const TransferId& id : bulk) REQUIRE_OK(OutcomeOf(Must(rig.in_east.AwaitTransfer(id))));
}
}  // namespace slow_wire_test
