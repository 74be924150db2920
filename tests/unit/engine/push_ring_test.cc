// Small transfers by a ring to another node, which gets what it is told to.
#include "onecopy/reasons.h"
#include "tests/support/memory.h"
#include "tests/unit/engine/between.h"

using namespace onecopy;
using namespace onecopy::testing;

TEST_CASE("a ring writes to another node, with one negotiation, and tells who saw the steps") {
  Between with;
  RingOf ring(with.east, with.in_east);
  const auto route = ring.OpenRoute("a", "west:b");
  REQUIRE_OK(route);
  CHECK(route->plan.path == "tcp-direct");
  CHECK(route->source == ParseEnd("east:a@0+16384"));
  CHECK(route->destination == ParseEnd("west:b@0+16384"));
  CHECK(ring.Move(route->word, 4096, 8192, 100).code == Code::kOk);
  CHECK(with.b.data[8192] == PatternAt(4096, 1));
  CHECK(with.b.data[8291] == PatternAt(4195, 1));
  CHECK(with.b.data[8292] == std::byte{0});
  CHECK(ring.Move(route->word, 0, kBetweenBytes - 1, 2).code == Code::kOutOfRange);
  CHECK(with.cluster.calls("OpenPush") == 1);
  CHECK(with.cluster.calls("OpenRange") == 1);

  const auto done = with.east.Ask<TransferInfo>([&](ClientApi& api, auto reply) {
    api.GetTransfer(with.in_east, ring.IdOf(0), std::move(reply));
  });
  REQUIRE_OK(done);
  CHECK(done->role == TransferRole::kSource);
  CHECK(done->destination == ParseEnd("west:b@8192+100"));
  REQUIRE(done->receipt.steps.size() == 3);
  CHECK(done->receipt.steps[2].step.node == "west");
  CHECK(done->receipt.steps[2].bytes == 100);
  CHECK(done->receipt.evidence.at("steps").find("west") != std::string::npos);
}

TEST_CASE("as many small transfers as a ring holds are under way to another node") {
  Between with;
  RingOf ring(with.east, with.in_east);
  const auto route = ring.OpenRoute("a", "west:b");
  REQUIRE_OK(route);
  constexpr uint64_t kMany = 3000;
  uint64_t submitted = 0;
  uint64_t ended = 0;
  while (ended < kMany) {
    uint64_t number = 0;
    while (submitted < kMany &&
           ring.end().Submit(route->word, submitted, kBetweenBytes - 1 - submitted, 1, &number)) {
      ++submitted;
    }
    ring::Ended one;
    while (ring.end().Reap(&one)) {
      REQUIRE(one.code == Code::kOk);
      ++ended;
    }
    if (ended < kMany) ring.end().Sleep(std::chrono::seconds(1));
  }
  for (uint64_t i = 0; i < kMany; ++i) {
    REQUIRE(with.b.data[kBetweenBytes - 1 - i] == PatternAt(i, 1));
  }
}

TEST_CASE(
    "what a ring writes on another node is what a grant allows there, for as long as it does") {
  Between with(1001);
  RingOf ring(with.east, with.in_east);
  CHECK(ring.OpenRoute("a", "west:b").status().reason() == reasons::kBufferNotFound);
  const auto grant = Between::GrantOn(with.west, with.in_west, "b@4096+4096", "1000@east", false);
  REQUIRE_OK(grant);
  CHECK(ring.OpenRoute("a", "west:b@0+8192").status().reason() == reasons::kNotOwner);
  const auto route = ring.OpenRoute("a", "west:b@4096+10");
  REQUIRE_OK(route);
  CHECK(route->destination == ParseEnd("west:b@4096+4096"));
  CHECK(ring.Move(route->word, 0, 4096, 4096).code == Code::kOk);
  CHECK(with.b.data[8191] == PatternAt(4095, 1));
  CHECK(ring.Move(route->word, 0, 4095, 1).code == Code::kOutOfRange);
  REQUIRE_OK(Between::In(with.west, [&](ClientApi& api, StatusReply reply) {
    api.DeleteGrant(with.in_west, grant->id, std::move(reply));
  }));
  const std::byte before = with.b.data[4096];
  with.a.data[0] = before ^ std::byte{1};
  CheckOver(ring.Move(route->word, 0, 4096, 1));
  CHECK(with.b.data[4096] == before);
  CHECK(ring.OpenRoute("a", "west:b@4096+10").status().reason() == reasons::kBufferNotFound);
}
