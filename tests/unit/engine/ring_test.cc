// What a ring's routes rest on: buffers, grants, sessions; and the receipts of what went by them.
#include "onecopy/reasons.h"
#include "tests/support/memory.h"
#include "tests/support/process.h"
#include "tests/unit/engine/between.h"
#include "tests/unit/engine/ring_of.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kRingBytes = 16 * 1024;

// One node with an owner's two buffers.
struct Owned {
  EngineCluster cluster{{"east"}};
  EngineNode& east = cluster["east"];
  Principal alice = east.Attach(1000);
  EngineNode::Registered a = Make("a");
  EngineNode::Registered b = Make("b");

  EngineNode::Registered Make(const std::string& name) {
    auto made = east.Register(alice, name, kRingBytes);
    REQUIRE_OK(made);
    return std::move(*made);
  }
  Result<GrantInfo> Grant(const std::string& range, uint32_t uid, bool read, bool write) {
    return east.Ask<GrantInfo>([&](ClientApi& api, auto reply) {
      api.CreateGrant(alice,
                      {.range = ParseEnd(range),
                       .to = std::to_string(uid),
                       .read = read,
                       .write = write,
                       .lifetime = {}},
                      std::move(reply));
    });
  }
  Result<TransferInfo> Get(const Principal& who, const TransferId& id) {
    return east.Ask<TransferInfo>(
        [&](ClientApi& api, auto reply) { api.GetTransfer(who, id, std::move(reply)); });
  }
};

// What is charged to alice.
uint64_t ChargedBytes(EngineNode& node) {
  Principal administrator = node.Attach(0);
  administrator.administrator = true;
  const auto info = node.Ask<NodeInfo>(
      [&](ClientApi& api, auto reply) { api.GetNode(administrator, "", std::move(reply)); });
  REQUIRE_OK(info);
  uint64_t bytes = 0;
  for (const AccountInfo& account : info->accounts) {
    if (account.payer != "1000@east") continue;
    for (const ChargeInfo& charge : account.charges) bytes += charge.bytes;
  }
  return bytes;
}

}  // namespace

TEST_CASE("a ring moves bytes between its owner's buffers, and its transfers have true receipts") {
  Owned with;
  RingOf ring(with.east, with.alice);
  Fill(with.a.data, kRingBytes, 1);
  const auto route = ring.OpenRoute("a", "b");
  REQUIRE_OK(route);
  CHECK(route->plan.path == "local");
  CHECK(route->source.bytes == kRingBytes);
  CHECK(ring.Move(route->word, 4096, 8192, 100).code == Code::kOk);
  CHECK(with.b.data[8192] == PatternAt(4096, 1));
  CHECK(with.b.data[8291] == PatternAt(4195, 1));
  CHECK(with.b.data[8292] == std::byte{0});

  const auto done = with.Get(with.alice, ring.IdOf(0));
  REQUIRE_OK(done);
  CHECK(done->state == TransferState::kSucceeded);
  CHECK(done->source == ParseEnd("east:a@4096+100"));
  CHECK(done->destination == ParseEnd("east:b@8192+100"));
  CHECK(done->owner == "1000@east");
  CHECK(done->receipt.path == "local");
  REQUIRE(done->receipt.steps.size() == 1);
  CHECK(done->receipt.steps[0].bytes == 100);
  CHECK(done->receipt.steps[0].step.by == "cpu");
  CHECK(done->receipt.evidence.at("submitted") == "ring");
  CHECK_FALSE(done->receipt.refused.empty());
  CHECK(done->end_time.has_value());

  SECTION("which nobody else sees") {
    CHECK(with.Get(with.east.Attach(1001), ring.IdOf(0)).status().code() == Code::kNotFound);
  }
  SECTION("which no other number has") {
    for (const char* id : {"", "-", "-0", "x-0"}) {
      CHECK(with.Get(with.alice, TransferId(id)).status().code() == Code::kNotFound);
    }
    CHECK(with.Get(with.alice, ring.IdOf(1)).status().code() == Code::kNotFound);
    CHECK(with.Get(with.alice, TransferId(ring.IdOf(0).str() + "g")).status().code() ==
          Code::kNotFound);
  }
  SECTION("also of what failed, and after the session") {
    CHECK(ring.Move(route->word, 0, kRingBytes, 1).code == Code::kOutOfRange);
    with.east.Detach(with.alice);
    while (ring.end().state() == ring::State::kOpen) ring.end().Sleep(std::chrono::seconds(1));
    const Principal again = with.east.Attach(1000);
    const auto failed = with.Get(again, ring.IdOf(1));
    REQUIRE_OK(failed);
    CHECK(failed->state == TransferState::kFailed);
    CHECK(failed->error.reason() == reasons::kRangeOutOfBuffer);
    CHECK(failed->bytes_done == 0);
    CHECK(with.Get(again, ring.IdOf(0))->state == TransferState::kSucceeded);
  }
}

TEST_CASE("who has no right on a buffer gets no route to it") {
  Owned with;
  RingOf ring(with.east, with.east.Attach(1001));
  CHECK(ring.OpenRoute("a", "b").status().reason() == reasons::kBufferNotFound);
  REQUIRE_OK(with.Grant("a", 1001, true, false));
  CHECK(ring.OpenRoute("a", "b").status().reason() == reasons::kBufferNotFound);
  REQUIRE_OK(with.Grant("b", 1001, true, false));  // to read is not to write
  CHECK(ring.OpenRoute("a", "b").status().reason() == reasons::kNotOwner);
}

TEST_CASE("a route that rests on grants is as wide as they are, and ends with either") {
  Owned with;
  const auto read = with.Grant("a@4096+4096", 1001, true, false);
  const auto write = with.Grant("b@0+8192", 1001, false, true);
  REQUIRE_OK(read);
  REQUIRE_OK(write);
  RingOf ring(with.east, with.east.Attach(1001));
  CHECK(ring.OpenRoute("a", "b@0+1").status().reason() == reasons::kNotOwner);
  const auto route = ring.OpenRoute("a@5000+10", "b@0+10");
  REQUIRE_OK(route);
  CHECK(route->source == ParseEnd("east:a@4096+4096"));
  CHECK(route->destination == ParseEnd("east:b@0+8192"));
  CHECK(ring.Move(route->word, 4096, 4096, 4096).code == Code::kOk);
  CHECK(ring.Move(route->word, 4095, 0, 1).code == Code::kOutOfRange);
  CHECK(ring.Move(route->word, 8192, 0, 1).code == Code::kOutOfRange);
  CHECK(ring.Move(route->word, 4096, 8192, 1).code == Code::kOutOfRange);
  const GrantId ends = GENERATE(false, true) ? read->id : write->id;
  const auto deleted = with.east.Ask<bool>([&](ClientApi& api, auto reply) {
    api.DeleteGrant(with.alice, ends, [reply = std::move(reply)](const Status& status) mutable {
      reply(status.ok() ? Result<bool>(true) : Result<bool>(status));
    });
  });
  REQUIRE_OK(deleted);
  const ring::Ended refused = ring.Move(route->word, 4096, 0, 1);
  CHECK(refused.code == Code::kPermissionDenied);
  CHECK(std::string(refused.reason) == reasons::kNotOwner);
  CHECK(ring.OpenRoute("a@5000+10", "b@0+10").status().reason() == reasons::kBufferNotFound);
}

TEST_CASE("a buffer that goes takes its routes along, before its removal is answered") {
  Owned with;
  const Principal bob = with.east.Attach(1000);
  RingOf ring(with.east, bob);
  const auto route = ring.OpenRoute("a", "b");
  REQUIRE_OK(route);
  CHECK(ring.Move(route->word, 0, 0, 1).code == Code::kOk);
  SECTION("removed") {
    const auto removed = with.east.Ask<bool>([&](ClientApi& api, auto reply) {
      api.DeleteBuffer(with.alice, "", "a", false,
                       [reply = std::move(reply)](const Status& status) mutable {
                         reply(status.ok() ? Result<bool>(true) : Result<bool>(status));
                       });
    });
    REQUIRE_OK(removed);
    const ring::Ended refused = ring.Move(route->word, 0, 0, 1);
    CHECK(refused.code != Code::kOk);
  }
  SECTION("with its client") {
    with.east.Detach(with.alice);
    const ring::Ended refused = ring.Move(route->word, 0, 0, 1);
    CHECK(refused.code == Code::kAborted);
    CHECK(std::string(refused.reason) == reasons::kOwnerDied);
  }
  CHECK(ring.OpenRoute("a", "b").status().reason() == reasons::kBufferNotFound);
}

TEST_CASE("a session has one ring, which ends with it") {
  Owned with;
  RingOf lost(with.east, with.alice);  // as if its descriptors had not come
  RingOf ring(with.east, with.alice);
  while (lost.end().state() == ring::State::kOpen) lost.end().Sleep(std::chrono::seconds(1));
  CHECK(lost.end().state() == ring::State::kEnded);
  const auto route = ring.OpenRoute("a", "a");
  REQUIRE_OK(route);
  const auto second = ring.Ask<RingGiven>(
      [&](RingApi& rings, auto reply) { rings.OpenRing(with.alice.session, std::move(reply)); });
  CHECK(second.status().code() == Code::kAlreadyExists);
  CHECK(ring.Move(route->word, 0, 1, 1).code == Code::kOk);
  with.east.Detach(with.alice);
  while (ring.end().state() == ring::State::kOpen) ring.end().Sleep(std::chrono::seconds(1));
  CHECK(ring.end().state() == ring::State::kEnded);
  CHECK(ring.OpenRoute("a", "a").status().code() == Code::kUnauthenticated);
}

TEST_CASE("a ring has a bounded number of routes, and gets room when one goes") {
  Owned with;
  RingOf ring(with.east, with.alice);
  for (uint32_t i = 0; i < ring::kRoutes; ++i) {
    REQUIRE_OK(ring.OpenRoute(i % 2 == 0 ? "a" : "b", "b"));
  }
  CHECK(ring.OpenRoute("a", "b").status().reason() == reasons::kQuota);
  const auto removed = with.east.Ask<bool>([&](ClientApi& api, auto reply) {
    api.DeleteBuffer(with.alice, "", "a", false,
                     [reply = std::move(reply)](const Status& status) mutable {
                       reply(status.ok() ? Result<bool>(true) : Result<bool>(status));
                     });
  });
  REQUIRE_OK(removed);
  const auto route = ring.OpenRoute("b", "b");
  REQUIRE_OK(route);
  CHECK(ring.Move(route->word, 0, 4096, 4096).code == Code::kOk);
}

TEST_CASE("a route that was not used for long makes room for another one") {
  EngineCluster cluster({"east"}, [](const std::string&, NodePlan& plan) {
    plan.options.unused_route = std::chrono::nanoseconds(0);
  });
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach(1000);
  const auto a = Between::Make(east, alice, "a");
  const auto b = Between::Make(east, alice, "b");
  RingOf ring(east, alice);
  std::vector<RingRoute> routes;
  for (uint32_t i = 0; i < ring::kRoutes; ++i) {
    const auto route = ring.OpenRoute(i % 2 == 0 ? "a" : "b", "b");
    REQUIRE_OK(route);
    routes.push_back(*route);
  }
  REQUIRE(ring.Move(routes[0].word, 0, 0, 1).code == Code::kOk);  // now the second is the oldest
  const auto more = ring.OpenRoute("a", "a");
  REQUIRE_OK(more);
  CHECK(ring.Move(more->word, 0, 4096, 4096).code == Code::kOk);
  CHECK(ring.Move(routes[0].word, 0, 0, 1).code == Code::kOk);
  const ring::Ended gone = ring.Move(routes[1].word, 0, 4096, 1);
  CHECK(gone.code == Code::kUnavailable);
  CHECK(std::string(gone.reason) == reasons::kQuota);
  CHECK(ring.Move(routes[2].word, 0, 0, 1).code == Code::kOk);
}

TEST_CASE("a user whose routes are all in use has a new one in place of the oldest of any ring") {
  EngineCluster cluster({"east"}, [](const std::string&, NodePlan& plan) {
    plan.options.unused_route = std::chrono::nanoseconds(0);
    plan.options.limits.routes = {2, 8};
  });
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach(1000);
  const Principal again = east.Attach(1000);
  const Principal bob = east.Attach(1001);
  const auto a = Between::Make(east, alice, "a");
  const auto b = Between::Make(east, bob, "b");
  RingOf one(east, alice);
  RingOf other(east, again);
  RingOf bobs(east, bob);
  const auto of_bob = bobs.OpenRoute("b", "b");
  REQUIRE_OK(of_bob);
  const auto first = one.OpenRoute("a", "a");
  const auto second = one.OpenRoute("a", "a");
  REQUIRE_OK(first);
  REQUIRE_OK(second);
  const auto third = other.OpenRoute("a", "a");
  REQUIRE_OK(third);
  CHECK(one.Move(first->word, 0, 4096, 1).code == Code::kUnavailable);
  CHECK(one.Move(second->word, 0, 4096, 1).code == Code::kOk);
  CHECK(other.Move(third->word, 0, 4096, 1).code == Code::kOk);
  CHECK(bobs.Move(of_bob->word, 0, 4096, 1).code == Code::kOk);  // nobody else pays for it
}

TEST_CASE("what is kept of routes that are gone is charged to their owner until the ring ends") {
  constexpr uint64_t kMany = 200;
  EngineCluster cluster({"east"});
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach(1000);
  const Principal other = east.Attach(1000);  // has the buffers
  const auto a = Between::Make(east, other, "a");
  const auto b = Between::Make(east, other, "b");
  RingOf ring(east, alice);
  const uint64_t before = ChargedBytes(east);
  for (uint64_t i = 0; i < kMany; ++i) REQUIRE_OK(ring.OpenRoute("a", "b"));
  const uint64_t open = ChargedBytes(east);
  CHECK(open >= before + kMany * kChargedOfARoute);
  REQUIRE_OK(Between::In(east, [&](ClientApi& api, StatusReply reply) {
    api.DeleteBuffer(other, "", "a", false, std::move(reply));
  }));
  const uint64_t gone = ChargedBytes(east);
  CHECK(gone + kChargedOfARoute >= open);  // the buffer's charge is smaller
  CHECK(gone <= open);
  east.Detach(alice);
  WaitUntil("the ring's charge is given back", [&] { return ChargedBytes(east) < before; });
}

TEST_CASE("a user without memory left has routes that are gone forgotten for a new one") {
  constexpr uint64_t kMany = 300;
  EngineCluster cluster({"east"}, [](const std::string&, NodePlan& plan) {
    plan.options.unused_route = std::chrono::nanoseconds(0);
    plan.options.limits.routes = {2, 8};
    plan.options.limits.memory.each = kChargedOfARing + kMany / 2 * kChargedOfARoute;
  });
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach(1000);
  const auto a = Between::Make(east, alice, "a");
  RingOf ring(east, alice);
  for (uint64_t i = 0; i < kMany; ++i) REQUIRE_OK(ring.OpenRoute("a", "a"));
}
