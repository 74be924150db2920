// Bytes of every size and place arrive between two nodes, on every path that works there.
#include <algorithm>
#include <cstring>

#include "tests/cluster/pair.h"
#include "tests/cluster/receipts.h"
#include "tests/support/catch.h"
#include "transport/digest/tree.h"

namespace sizes_test {
namespace {

using onecopy::Client;
using onecopy::HostBuffer;
using namespace onecopy::testing;

constexpr uint64_t kSlot = uint64_t{1} << 20;  // what [staging] slot_bytes is by default
constexpr uint64_t kLarge = (uint64_t{64} << 20) + 3;
constexpr uint64_t kSizes[] = {1, 4095, 4096, 4097, kSlot - 1, kSlot, kSlot + 1, kLarge};
constexpr std::byte kUntouched{0xa7};
constexpr const char* kPaths[] = {"tcp-direct", "tcp-bounce", "tcp-staged"};

bool AllUntouched(const std::byte* begin, const std::byte* end) {
  return std::all_of(begin, end, [](std::byte value) { return value == kUntouched; });
}

}  // namespace

TEST_CASE("every size arrives at an unaligned place, and nothing beside it changes") {
  Pair pair;
  Client east = pair.east.Connect();
  Client west = pair.west.Connect();
  const HostBuffer source = Filled(east, "a", kLarge + 16, 1);
  const HostBuffer destination = Must(west.CreateHostBuffer("b", kLarge + 32));
  for (const char* path : kPaths) {
    for (const uint64_t bytes : kSizes) {
      INFO(path << ", " << bytes << " bytes");
      std::memset(destination.data(), static_cast<int>(kUntouched), destination.bytes());
      const auto done = Must(RunNegotiated(east, {.source = source.endpoint(3, bytes),
                                                  .destination = {"west", "b", 5, {}},
                                                  .policy = {.path_glob = path},
                                                  .checksum = true}));
      REQUIRE_OK(onecopy::OutcomeOf(done));
      CheckReceipt(done, {path, bytes, true});
      CHECK(done.receipt.checksum->value == onecopy::digest::TreeHexOf(source.data() + 3, bytes));
      CHECK(done.bytes_done == bytes);
      CHECK(IsPayload(destination.data() + 5, bytes, 1, 3));
      CHECK(AllUntouched(destination.data(), destination.data() + 5));
      CHECK(AllUntouched(destination.data() + 5 + bytes, destination.data() + destination.bytes()));
    }
  }
}

TEST_CASE("no bytes at all move, and succeed") {
  Pair pair;
  pair.east.Do({"buffer", "create", "a", "--size", "8KiB", "--memory", "host"});
  pair.west.Do({"buffer", "create", "b", "--size", "8KiB", "--memory", "host"});
  for (const char* path : kPaths) {
    for (const char* source : {"a@0+0", "a@4097+0", "a@8192+0"}) {
      const Json receipt = pair.east.Do({"cp", source, "west:b@5", "--path", path, "--checksum"});
      CheckReceipt(receipt, {path, 0, true});
    }
  }
  CHECK(Contents(pair.west, "b") == std::string(8192, '\0'));
}

TEST_CASE("a file goes into a buffer, to the other node and back, and into a file") {
  Pair pair;
  const std::string payload = Payload(1'000'003);
  pair.east.Do({"buffer", "create", "a", "--size", "1000003", "--memory", "host"});
  pair.west.Do({"buffer", "create", "b", "--size", "1000003", "--memory", "host"});
  pair.east.Do({"buffer", "create", "c", "--size", "1000003", "--memory", "host"});
  pair.east.Do({"cp", "-", "a"}, payload);
  for (const char* path : kPaths) {
    CheckReceipt(pair.east.Do({"cp", "a", "west:b", "--path", path}), {path, 1'000'003, false});
    CHECK(Contents(pair.west, "b") == payload);
    // The destination's node is where it is ordered, this time.
    CheckReceipt(pair.east.Do({"cp", "west:b", "c", "--path", path, "--checksum"}),
                 {path, 1'000'003, true});
    CHECK(Contents(pair.east, "c") == payload);
    pair.west.Do({"buffer", "rm", "b"});
    pair.west.Do({"buffer", "create", "b", "--size", "1000003", "--memory", "host"});
  }
  // Ranges as people type them.
  const Json receipt = pair.east.Do({"cp", "a@3+4097", "west:b@5", "--checksum"});
  CheckReceipt(receipt, {"tcp-direct", 4097, true});
  CHECK(receipt.at("source") == "east:a@3+4097");
  CHECK(receipt.at("destination") == "west:b@5+4097");
  std::string expected(1'000'003, '\0');
  expected.replace(5, 4097, payload, 3, 4097);
  CHECK(Contents(pair.west, "b") == expected);
}
}  // namespace sizes_test
