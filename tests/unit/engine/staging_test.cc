// What passes through slots: how long they are, and over how many lanes one goes.
#include <algorithm>

#include "daemon/pipeline/places.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/memory.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

TEST_CASE("slots become longer where the payload has many, and never fewer than eight") {
  const auto with = [](uint64_t slot_bytes, uint32_t slots, uint64_t payload) {
    const pipeline::SlotLease lease = pipeline::InLongSlots(
        {.slab = {}, .slot_bytes = slot_bytes, .first_byte = 77, .slots = slots, .returner = {}},
        payload);
    CHECK(lease.first_byte == 77);
    CHECK(lease.slot_bytes * lease.slots <= slot_bytes * slots);
    return std::pair(lease.slot_bytes, lease.slots);
  };
  const uint64_t mib = 1 << 20;
  CHECK(with(2 * mib, 16, 1024 * mib) == std::pair(4 * mib, 8U));
  CHECK(with(2 * mib, 16, 255 * mib) == std::pair(2 * mib, 16U));
  CHECK(with(2 * mib, 16, 256 * mib) == std::pair(4 * mib, 8U));
  CHECK(with(mib, 29, 1024 * mib) == std::pair(3 * mib, 9U));
  CHECK(with(2 * mib, 7, 1024 * mib) == std::pair(2 * mib, 7U));
  CHECK(with(4096, 1, 1) == std::pair(uint64_t{4096}, 1U));
}

TEST_CASE("one slot goes over several lanes at once") {
  EngineCluster cluster({"east", "west"});
  const Principal alice = cluster["east"].Attach();
  const Principal bob = cluster["west"].Attach();
  constexpr uint64_t kBytes = (1 << 20) + 1;
  auto source = cluster["east"].Register(alice, "a", kBytes);
  auto sink = cluster["west"].Register(bob, "b", kBytes);
  REQUIRE_OK(source);
  REQUIRE_OK(sink);
  for (uint64_t i = 0; i < kBytes; ++i) source->data[i] = PatternAt(i, 1);
  TransferRequest request = Request("east:a", "west:b");
  request.policy.path_glob = "tcp-staged";
  auto copied = cluster["west"].Copy(bob, request);
  REQUIRE_OK(copied);
  INFO(copied->error.ToString());
  REQUIRE(copied->state == TransferState::kSucceeded);
  CHECK(std::equal(source->data, source->data + kBytes, sink->data));
  REQUIRE(copied->receipt.lanes.size() >= 2);
  uint64_t carried = 0;
  for (const LaneBytes& lane : copied->receipt.lanes) {
    CHECK(lane.bytes > 0);
    carried += lane.bytes;
  }
  CHECK(carried == kBytes);
}
