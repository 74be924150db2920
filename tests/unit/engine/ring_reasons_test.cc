// Small transfers by rings that fail say why, in the words of any other transfer, and can be looked
// up.
#include "onecopy/reasons.h"
#include "tests/support/memory.h"
#include "tests/unit/engine/between.h"

using namespace onecopy;
using namespace onecopy::testing;

namespace {

Result<bool> Remove(EngineNode& node, const Principal& who, const std::string& buffer) {
  return Between::In(node, [&](ClientApi& api, StatusReply reply) {
    api.DeleteBuffer(who, "", buffer, false, std::move(reply));
  });
}

// A small transfer has ended so, and its record says the same.
void CheckFailed(EngineNode& node, const Principal& who, const RingOf& ring,
                 const ring::Ended& ended, Code code, std::string_view reason) {
  CHECK(ended.code == code);
  CHECK(std::string(ended.reason) == reason);
  const auto record = GetTransfer(node, who, ring.IdOf(ended.number));
  REQUIRE_OK(record);
  CHECK(record->state == TransferState::kFailed);
  CHECK(record->error.code() == code);
  CHECK(record->error.reason() == reason);
  CHECK_FALSE(record->error.message().empty());
  CHECK(record->bytes_done == 0);
}

// Alice's buffers "a", "b" and "c" on a node, and her ring.
struct Inside {
  EngineCluster cluster{{"east"}};
  EngineNode& east = cluster["east"];
  Principal alice = east.Attach(1000);
  EngineNode::Registered a = Between::Make(east, alice, "a");
  EngineNode::Registered b = Between::Make(east, alice, "b");
  EngineNode::Registered c = Between::Make(east, alice, "c");
  RingOf ring{east, alice};
};

}  // namespace

TEST_CASE("a ring's transfer with a buffer that was removed says so, as any other would") {
  Inside with;
  const auto route = with.ring.OpenRoute("a", "b");
  REQUIRE_OK(route);
  CHECK(with.ring.Move(route->word, 0, 0, 1).code == Code::kOk);
  REQUIRE_OK(Remove(with.east, with.alice, GENERATE("a", "b")));
  for (int i = 0; i < 2; ++i) {
    CheckFailed(with.east, with.alice, with.ring, with.ring.Move(route->word, 0, 0, 1),
                Code::kNotFound, reasons::kBufferNotFound);
  }
  SECTION("also when another route has its place in the ring") {
    const auto next = with.ring.OpenRoute("c", "c");
    REQUIRE_OK(next);
    REQUIRE(ring::RoutePlace(next->word) == ring::RoutePlace(route->word));
    CheckFailed(with.east, with.alice, with.ring, with.ring.Move(route->word, 0, 0, 1),
                Code::kNotFound, reasons::kBufferNotFound);
  }
}

TEST_CASE("a submission that names no route of its ring can be looked up") {
  Inside with;
  const auto route = with.ring.OpenRoute("a", "b");
  REQUIRE_OK(route);
  const uint64_t word = GENERATE(uint64_t{0}, uint64_t{77} << 8, UINT64_MAX);
  CheckFailed(with.east, with.alice, with.ring, with.ring.Move(word, 0, 0, 1),
              Code::kInvalidArgument, reasons::kBadArgument);
}

TEST_CASE("what ends a ring's way to or from another node is told with the reason there") {
  const bool at_west = GENERATE(true, false);
  Between with(1001);
  EngineNode& here = at_west ? with.west : with.east;
  EngineNode& there = at_west ? with.east : with.west;
  const Principal& who = at_west ? with.in_west : with.in_east;
  const Principal& owner = at_west ? with.in_east : with.in_west;
  const auto grant =
      at_west ? with.Grant("a", 1001) : Between::GrantOn(with.west, owner, "b", "1000@east", false);
  REQUIRE_OK(grant);
  RingOf ring(here, who);
  const auto route = ring.OpenRoute("east:a", "west:b");
  REQUIRE_OK(route);
  REQUIRE(ring.Move(route->word, 0, 0, 1).code == Code::kOk);
  SECTION("its buffer is removed") {
    REQUIRE_OK(Remove(there, owner, at_west ? "a" : "b"));
    for (int i = 0; i < 2; ++i) {
      CheckFailed(here, who, ring, ring.Move(route->word, 0, 0, 1), Code::kNotFound,
                  reasons::kBufferNotFound);
    }
  }
  SECTION("its grant is taken back") {
    REQUIRE_OK(Between::In(there, [&](ClientApi& api, StatusReply reply) {
      api.DeleteGrant(owner, grant->id, std::move(reply));
    }));
    // A reader's node asks anew, and who has no right on a buffer any more does not learn of it; a
    // source's node hears why its way in has ended.
    for (int i = 0; i < 2; ++i) {
      CheckFailed(here, who, ring, ring.Move(route->word, 0, 0, 1),
                  at_west ? Code::kNotFound : Code::kPermissionDenied,
                  at_west ? reasons::kBufferNotFound : reasons::kNotOwner);
    }
  }
  SECTION("a buffer of this node is removed") {
    REQUIRE_OK(Remove(here, who, at_west ? "b" : "a"));
    CheckFailed(here, who, ring, ring.Move(route->word, 0, 0, 1), Code::kNotFound,
                reasons::kBufferNotFound);
  }
  SECTION("the other node shuts down") {
    std::promise<void> drained;
    there.engine().Drain([&] { drained.set_value(); });
    drained.get_future().wait();
    const ring::Ended ended = ring.Move(route->word, 0, 0, 1);
    CHECK(ended.code == Code::kUnavailable);
    CHECK(std::string(ended.reason) == reasons::kDraining);
  }
}
