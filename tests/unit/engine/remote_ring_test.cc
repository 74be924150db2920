// Small transfers by a ring from another node: what they rest on there, and what ends them.
#include "onecopy/reasons.h"
#include "tests/support/memory.h"
#include "tests/unit/engine/between.h"
#include "transport/link/tcp/frame.h"

using namespace onecopy;
using namespace onecopy::testing;

TEST_CASE("a ring reads from another node, with one negotiation, and tells each step") {
  Between with;
  RingOf ring(with.west, with.in_west);
  const auto route = ring.OpenRoute("east:a", "west:b");
  REQUIRE_OK(route);
  CHECK(route->plan.path == "tcp-direct");
  CHECK(route->source == ParseEnd("east:a@0+16384"));
  CHECK(ring.Move(route->word, 4096, 8192, 100).code == Code::kOk);
  CHECK(with.b.data[8192] == PatternAt(4096, 1));
  CHECK(with.b.data[8291] == PatternAt(4195, 1));
  CHECK(with.b.data[8292] == std::byte{0});
  CHECK(ring.Move(route->word, kBetweenBytes - 1, 0, 2).code == Code::kOutOfRange);
  for (uint64_t i = 0; i < 600; ++i) {
    REQUIRE(ring.Move(route->word, i, kBetweenBytes - 1 - i, 1).code == Code::kOk);
    REQUIRE(with.b.data[kBetweenBytes - 1 - i] == PatternAt(i, 1));
  }
  CHECK(with.cluster.calls("OpenRange") == 1);
  CHECK(with.cluster.calls("Prepare") == 0);

  const auto done = with.Get(ring.IdOf(0));
  REQUIRE_OK(done);
  CHECK(done->state == TransferState::kSucceeded);
  CHECK(done->source == ParseEnd("east:a@4096+100"));
  CHECK(done->destination == ParseEnd("west:b@8192+100"));
  CHECK(done->receipt.path == "tcp-direct");
  REQUIRE(done->receipt.steps.size() == 3);
  CHECK(done->receipt.steps[0].step.node == "east");
  CHECK(done->receipt.steps[1].step.by == "wire");
  CHECK(done->receipt.steps[2].step.node == "west");
  CHECK(done->receipt.steps[2].bytes == 100);
  CHECK(done->receipt.evidence.at("submitted") == "ring");
}

TEST_CASE(
    "what a ring reads of another node is what a grant allows there, for as long as it does") {
  Between with(1001);
  RingOf ring(with.west, with.in_west);
  CHECK(ring.OpenRoute("east:a", "west:b").status().reason() == reasons::kBufferNotFound);
  const auto grant = with.Grant("a@4096+4096", 1001);
  REQUIRE_OK(grant);
  CHECK(ring.OpenRoute("east:a@0+8192", "west:b").status().reason() == reasons::kNotOwner);
  const auto route = ring.OpenRoute("east:a@4096+4096", "west:b");
  REQUIRE_OK(route);
  CHECK(route->source == ParseEnd("east:a@4096+4096"));
  CHECK(ring.Move(route->word, 4096, 0, 4096).code == Code::kOk);
  CHECK(with.b.data[4095] == PatternAt(8191, 1));
  CHECK(ring.Move(route->word, 4095, 0, 1).code == Code::kOutOfRange);
  REQUIRE_OK(with.InEast([&](ClientApi& api, StatusReply reply) {
    api.DeleteGrant(with.in_east, grant->id, std::move(reply));
  }));
  const std::byte before = with.b.data[0];
  with.a.data[4096] = before ^ std::byte{1};
  CheckOver(ring.Move(route->word, 4096, 0, 1));
  CHECK(with.b.data[0] == before);
  CHECK(ring.OpenRoute("east:a@4096+4096", "west:b").status().reason() == reasons::kBufferNotFound);
}

TEST_CASE("a range of another node is opened for the ticket's reader alone, and closed for it") {
  Between with;
  RingOf ring(with.west, with.in_west);
  REQUIRE_OK(ring.OpenRoute("east:a", "west:b"));
  const auto ask = [&]<typename Reply>(auto call) {
    std::promise<Result<Reply>> answered;
    with.east.engine().loop().Post([&] {
      call(with.east.engine().node(),
           [&](Result<Reply> reply) { answered.set_value(std::move(reply)); });
    });
    return answered.get_future().get();
  };
  const auto connection = ask.operator()<ConnectReply>([](PeerApi& east, auto reply) {
    east.Connect("west", {"tcp", tcp::Encode(tcp::Offer{1})}, std::move(reply));
  });
  REQUIRE_OK(connection);
  const auto open = [&](const std::string& caller, uint64_t number) {
    return ask.operator()<OpenRangeReply>([&](PeerApi& east, auto reply) {
      east.OpenRange(caller, {"guessed", TransferId("t"), number}, std::move(reply));
    });
  };
  CHECK(open("west", connection->connection).status().code() == Code::kPermissionDenied);
  for (const Status& gone : {open("west", connection->connection + 1).status(),
                             open("north", connection->connection).status()}) {
    CHECK(gone.code() == Code::kNotFound);
    CHECK(gone.reason() == reasons::kLinkDown);
  }
}
