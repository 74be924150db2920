// What passes through slots: how long they are, and over how many lanes one goes.
#include <algorithm>

#include "daemon/pipeline/places.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/memory.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

TEST_CASE(
    "chunks take several slots where the payload has many, and never leave fewer than eight") {
  const uint64_t mib = 1 << 20;
  CHECK(pipeline::SlotsTogether(2 * mib, 16, 1024 * mib) == 2);
  CHECK(pipeline::SlotsTogether(2 * mib, 16, 255 * mib) == 1);
  CHECK(pipeline::SlotsTogether(2 * mib, 16, 256 * mib) == 2);
  CHECK(pipeline::SlotsTogether(mib, 29, 1024 * mib) == 3);
  CHECK(pipeline::SlotsTogether(2 * mib, 7, 1024 * mib) == 1);
  CHECK(pipeline::SlotsTogether(4096, 1, 1) == 1);
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
  Fill(source->data, kBytes, 1);
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
