// Two daemons with an RDMA device each: what the paths over it carry, and how.
#include <cstring>

#include "tests/cluster/receipts.h"
#include "tests/rdma/rdma_pair.h"
#include "tests/support/catch.h"

namespace daemons_test {

using onecopy::Client;
using onecopy::HostBuffer;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kSlot = uint64_t{1} << 20;
constexpr uint64_t kMost = uint64_t{64} << 20;

}  // namespace

TEST_CASE("every size arrives at odd places, over the device and nothing else") {
  RdmaPair pair;
  Client east = pair.east.Connect();
  Client west = pair.west.Connect();
  const HostBuffer source = Filled(east, "a", kMost + 16, 1);
  const HostBuffer destination = Must(west.CreateHostBuffer("b", kMost + 32));
  for (const char* path : {"rdma-direct", "rdma-bounce", "rdma-staged"}) {
    for (const uint64_t bytes :
         {uint64_t{0}, uint64_t{1}, uint64_t{4097}, kSlot - 1, 3 * kSlot + 7, kMost}) {
      INFO(path << ", " << bytes << " bytes");
      std::memset(destination.data(), 0xa7, destination.bytes());
      const uint64_t before = PacketsReceived();
      const auto done = Must(RunNegotiated(east, {.source = source.endpoint(3, bytes),
                                                  .destination = {"west", "b", 5, {}},
                                                  .policy = {.path_glob = path},
                                                  .checksum = true}));
      REQUIRE_OK(onecopy::OutcomeOf(done));
      CheckReceipt(done, {path, bytes, true, "verbs", true});
      CHECK(IsPayload(destination.data() + 5, bytes, 1, 3));
      CHECK(destination.data()[4] == std::byte{0xa7});
      CHECK(destination.data()[5 + bytes] == std::byte{0xa7});
      // Packets carry at most 4 KiB each.
      CHECK(PacketsReceived() - before >= bytes / 4096);
      if (bytes == 0) continue;
      CHECK(done.receipt.registration == "host");
      CHECK(done.receipt.key == "window");
      uint64_t read = 0;
      for (const auto& [name, text] : done.receipt.evidence) {
        if (name.find("bytes read") != std::string::npos) read += std::stoull(text);
      }
      CHECK(read >= bytes);
    }
  }
}

TEST_CASE("ranges are read piece by piece over the device, or gathered into slots") {
  RdmaPair pair;
  Client east = pair.east.Connect();
  Client west = pair.west.Connect();
  constexpr uint64_t kRanges = 1000;
  constexpr uint64_t kRange = 5003;
  const HostBuffer source = Filled(east, "a", 2 * kRanges * kRange, 1);
  const HostBuffer destination = Must(west.CreateHostBuffer("b", 2 * kRanges * kRange));
  onecopy::TransferRequest request;
  request.source = source.endpoint();
  request.destination = {"west", "b", {}, {}};
  request.checksum = true;
  for (uint64_t i = 0; i < kRanges; ++i) {
    request.ranges.push_back(
        {{2 * i * kRange, kRange, 0, 1}, {2 * (kRanges - 1 - i) * kRange + 1, kRange, 0, 1}});
  }
  for (const char* path : {"rdma-direct", "rdma-bounce", "rdma-staged"}) {
    INFO(path);
    std::memset(destination.data(), 0xa7, destination.bytes());
    request.policy.path_glob = path;
    const auto done = Must(east.RunTransfer(request));
    REQUIRE_OK(onecopy::OutcomeOf(done));
    CheckReceipt(done, {path, kRanges * kRange, true, "verbs", true});
    CHECK(done.receipt.ranges == kRanges);
    CHECK(destination.data()[0] == std::byte{0xa7});
    for (const auto& [from, to, source_buffer, destination_buffer] : request.ranges) {
      REQUIRE(IsPayload(destination.data() + to.offset, kRange, 1, from.offset));
      REQUIRE(destination.data()[to.offset + kRange] == std::byte{0xa7});
    }
  }
}

TEST_CASE("a staged transfer's slots serve the processor and the device alike: no step between") {
  RdmaPair pair;
  pair.east.Do({"buffer", "create", "a", "--size", "4MiB", "--memory", "host"});
  pair.west.Do({"buffer", "create", "b", "--size", "4MiB", "--memory", "host"});
  const Json receipt = pair.east.Do({"cp", "a", "west:b", "--path", "rdma-staged"});
  REQUIRE(receipt.at("steps").size() == 3);
  CHECK(receipt.at("steps")[0].at("to") == receipt.at("steps")[1].at("from"));
  CHECK(receipt.at("steps")[1].at("to") == receipt.at("steps")[2].at("from"));
  CHECK(receipt.at("steps")[1].at("by") == "wire");
  CHECK(receipt.at("steps")[1].at("emulated") == true);
}

TEST_CASE("a software device does not count as fewer copies unless that is allowed") {
  RdmaPair pair;
  pair.east.Do({"buffer", "create", "a", "--size", "1MiB", "--memory", "host"});
  pair.west.Do({"buffer", "create", "b", "--size", "1MiB", "--memory", "host"});
  CheckRefused(pair.east.Run({"cp", "a", "west:b", "--at-most", "1"}), 7, "FAILED_PRECONDITION",
               "POLICY_UNMET");
  const Json receipt = pair.east.Do({"cp", "a", "west:b", "--at-most", "1", "--allow-emulated"});
  CHECK(receipt.at("path") == "rdma-direct");
  CHECK(receipt.at("emulated") == true);
}

TEST_CASE("two devices at each end share the bytes") {
  RdmaPair pair({.west_devices = {"rxe0", "rxe1"}, .east_devices = {"rxe0", "rxe1"}});
  pair.east.Do({"buffer", "create", "a", "--size", "16MiB", "--memory", "host"});
  pair.west.Do({"buffer", "create", "b", "--size", "16MiB", "--memory", "host"});
  const Json receipt = pair.east.Do({"cp", "a", "west:b", "--path", "rdma-direct", "--checksum"});
  REQUIRE(receipt.at("lanes").size() == 2);
  for (const Json& lane : receipt.at("lanes")) CHECK(lane.at("bytes") > 0);
}

TEST_CASE("hundreds of transfers of slices cost one registration and leave nothing behind") {
  RdmaPair pair;
  Client east = pair.east.Connect();
  Client west = pair.west.Connect();
  constexpr uint64_t kSlice = 512;
  constexpr uint64_t kSlices = 250;
  const HostBuffer source = Filled(east, "a", kSlices * kSlice, 1);
  const HostBuffer destination = Must(west.CreateHostBuffer("b", kSlices * kSlice));
  auto move = [&](uint64_t slice) {
    const auto done = Must(east.RunTransfer({.source = source.endpoint(slice * kSlice, kSlice),
                                             .destination = {"west", "b", slice * kSlice, {}},
                                             .policy = {.path_glob = "rdma-direct"}}));
    REQUIRE_OK(onecopy::OutcomeOf(done));
    return done.id;
  };
  // By gRPC first. A node that is busy may refuse the ring's way for a while; and a route of a ring
  // takes the path that is best for 64 KiB, which may be sockets on a busy processor.
  WaitUntil("a transfer goes by the ring, or the ring has another path", [&] {
    if (Must(east.GetTransfer(move(0))).receipt.evidence.contains("submitted")) return true;
    const auto free = Must(east.RunTransfer(
        {.source = source.endpoint(0, kSlice), .destination = {"west", "b", 0, {}}}));
    const onecopy::Receipt receipt = Must(east.GetTransfer(free.id)).receipt;
    return receipt.evidence.contains("submitted") && receipt.path != "rdma-direct";
  });
  const size_t queue_pairs = CountResources("qp");
  const size_t regions = CountResources("mr");
  for (uint64_t slice = 1; slice < kSlices; ++slice) move(slice);
  // Of the first transfers some may have been on their way out when they were counted.
  // A connection that was still being made may have its own by now, at both ends.
  constexpr size_t kOfALink = 4;
  CHECK(CountResources("qp") <= queue_pairs + kOfALink);
  CHECK(CountResources("mr") <= regions);
  CHECK(IsPayload(destination.data(), kSlices * kSlice, 1));
}

}  // namespace daemons_test
