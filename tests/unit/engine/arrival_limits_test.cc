// What messages and watches are refused: by limits, by rights, and for what cannot be.
#include "onecopy/reasons.h"
#include "tests/unit/engine/arriving.h"
#include "tests/unit/engine/ring_of.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace {

constexpr uint32_t kWriter = 2000;  // another user than the buffers' owner
using ToldTexts = std::vector<std::string>;

}  // namespace

TEST_CASE("a message that nobody would hear of is refused before a byte moves") {
  Arriving rig;
  Fill(rig.b, 7);
  const auto refused = rig.Write("hello");
  CHECK(refused.status().code() == Code::kFailedPrecondition);
  CHECK(refused.status().reason() == reasons::kNotWatched);
  const Status alone = Tell(rig.west, rig.abroad, "east:a", "hello");
  CHECK(alone.reason() == reasons::kNotWatched);
  CHECK(alone.remedy().find("--keep-arrivals") != std::string::npos);
  REQUIRE_OK(rig.Write(""));
  Watching watch(rig.east, rig.alice, "a");
  CHECK(watch.Take().empty());  // it did not watch then
}

TEST_CASE("a reader that does not acknowledge has writers refused, and loses no message") {
  Arriving rig(
      [](const std::string&, NodePlan& plan) { plan.options.limits.arrivals_per_buffer = 4; });
  Watching watch(rig.east, rig.alice, "a");
  // Without a message half of the room is for them; the rest is missed, and said to be.
  for (int i = 0; i < 5; ++i) REQUIRE_OK(rig.Write(""));
  CHECK(watch.Take().size() == 2);
  CHECK(watch.missed == 3);
  REQUIRE_OK(rig.Write("1"));
  REQUIRE_OK(Tell(rig.west, rig.abroad, "east:a", "2"));
  const auto full = rig.Write("3");
  CHECK(full.status().code() == Code::kResourceExhausted);
  CHECK(full.status().reason() == reasons::kQuota);
  CHECK(full.status().remedy().find("[limits] arrivals_per_buffer") != std::string::npos);
  CHECK(Tell(rig.west, rig.abroad, "east:a", "3").reason() == reasons::kQuota);
  CHECK(watch.Messages() == ToldTexts{"1", "2"});
  CHECK(rig.Write("3").status().reason() == reasons::kQuota);  // taken, and not dealt with
  REQUIRE_OK(watch.Acknowledge(4));
  REQUIRE_OK(rig.Write("3"));
  const auto told = watch.Take();
  REQUIRE(told.size() == 1);
  CHECK(told[0].message == "3");
  CHECK(told[0].sequence == 8);  // the hole is what was missed
}

TEST_CASE("what one user's buffers hold is bounded, by a limit that is named") {
  Arriving rig([](const std::string&, NodePlan& plan) { plan.options.limits.arrivals = {3, 100}; });
  REQUIRE_OK(Keeping(rig.east, rig.alice, "k"));
  REQUIRE_OK(Keeping(rig.east, rig.alice, "l"));
  for (const char* to : {"east:k", "east:l", "east:k"}) {
    REQUIRE_OK(Tell(rig.west, rig.abroad, to, "x"));
  }
  const Status full = Tell(rig.west, rig.abroad, "east:l", "x");
  CHECK(full.reason() == reasons::kQuota);
  CHECK(full.remedy().find("[limits] arrivals_per_user, which is 3") != std::string::npos);
  // A buffer that keeps what arrives leaves nothing out: what has no message is refused as well.
  CHECK(rig.Write("", "east:l").status().reason() == reasons::kQuota);
  // Another user has room of her own.
  const Principal bob = rig.east.Attach(kWriter);
  REQUIRE_OK(Keeping(rig.east, bob, "bobs"));
  REQUIRE_OK(Tell(rig.east, bob, "east:bobs", "x"));
  // What goes takes no room.
  REQUIRE_OK(Done(rig.east, [&](ClientApi& api, auto reply) {
    api.DeleteBuffer(rig.alice, "", "k", false, std::move(reply));
  }));
  REQUIRE_OK(Tell(rig.west, rig.abroad, "east:l", "x"));
}

TEST_CASE("watches are bounded, too") {
  Arriving rig([](const std::string&, NodePlan& plan) { plan.options.limits.watches = {2, 4}; });
  Watching one(rig.east, rig.alice, "a");
  auto two = std::make_unique<Watching>(rig.east, rig.alice, "");
  Watching three(rig.east, rig.alice, "a");
  CHECK(three.opened().reason() == reasons::kQuota);
  CHECK(three.opened().remedy().find("[limits] watches_per_user") != std::string::npos);
  two.reset();
  REQUIRE_OK(Watching(rig.east, rig.alice, "a").opened());
}

TEST_CASE("watching is the owner's, and telling is for those who may write") {
  Arriving rig;
  const Principal bob = rig.east.Attach(kWriter);
  CHECK(Watching(rig.east, bob, "a").opened().reason() == reasons::kBufferNotFound);
  CHECK(Watching(rig.east, rig.alice, "nothing").opened().reason() == reasons::kBufferNotFound);
  Watching watch(rig.east, rig.alice, "a");
  CHECK(Tell(rig.east, bob, "a", "x").reason() == reasons::kBufferNotFound);
  CHECK(watch.AcknowledgeAs(bob, 0).reason() == reasons::kWatchNotFound);
  const auto grant = [&](bool write) {
    REQUIRE_OK(rig.east.Ask<GrantInfo>([&](ClientApi& api, auto reply) {
      api.CreateGrant(rig.alice, {ParseEnd("a@100+8"), "2000", !write, write, {}},
                      std::move(reply));
    }));
  };
  grant(false);
  CHECK(Tell(rig.east, bob, "a", "x").code() == Code::kPermissionDenied);
  CHECK(Watching(rig.east, bob, "a").opened().code() == Code::kPermissionDenied);
  grant(true);
  REQUIRE_OK(Tell(rig.east, bob, "a", "may"));
  CHECK(Watching(rig.east, bob, "a").opened().code() == Code::kPermissionDenied);
  CHECK(watch.Messages() == ToldTexts{"may"});
  CHECK(Tell(rig.east, rig.alice, "a@0+4", "x").reason() == reasons::kBadEndpoint);
  // An administrator may see what its owner does.
  REQUIRE_OK(Watching(rig.east, rig.east.Attach(0), "a").opened());
}

TEST_CASE("a message with a request id is told once, whatever is asked again") {
  Arriving rig;
  CHECK(Tell(rig.west, rig.abroad, "east:a", "m", "id").reason() == reasons::kNotWatched);
  Watching watch(rig.east, rig.alice, "a");
  for (int i = 0; i < 3; ++i) REQUIRE_OK(Tell(rig.west, rig.abroad, "east:a", "m", "id"));
  CHECK(Tell(rig.west, rig.abroad, "east:a", "other", "id").reason() == reasons::kRequestIdReused);
  REQUIRE_OK(Tell(rig.east, rig.alice, "a", "here", "id"));  // another user: another node's
  REQUIRE_OK(Tell(rig.west, rig.west.Attach(), "east:a", "m", "id"));
  CHECK(watch.Messages() == ToldTexts{"m", "here"});
  REQUIRE_OK(Tell(rig.west, rig.abroad, "east:a", "m"));
  REQUIRE_OK(Tell(rig.west, rig.abroad, "east:a", "m"));
  CHECK(watch.Messages() == ToldTexts{"m", "m"});
}

TEST_CASE("a request that differs in its message alone is another request") {
  Arriving rig;
  Watching watch(rig.east, rig.alice, "a");
  TransferRequest request = Request("west:b", "east:a");
  request.message = "one";
  request.request_id = "job";
  const auto first = rig.west.Copy(rig.abroad, request);
  REQUIRE_OK(first);
  CHECK(rig.west.Start(rig.abroad, request)->id == first->id);
  request.message = "two";
  CHECK(rig.west.Start(rig.abroad, request).status().reason() == reasons::kRequestIdReused);
  CHECK(watch.Messages() == ToldTexts{"one"});
}

TEST_CASE("for what its users' buffers hold, another node pays as a whole") {
  Arriving rig([](const std::string&, NodePlan& plan) { plan.options.limits.arrivals = {3, 100}; });
  std::vector<Principal> users;
  for (const uint32_t uid : {3001U, 3002U}) {
    users.push_back(rig.west.Attach(uid));
    REQUIRE_OK(rig.west.Ask<BufferInfo>([&](ClientApi& api, auto reply) {
      CreateBufferRequest request;
      request.node = "east";
      request.name = "of-" + std::to_string(uid);
      request.bytes = 4096;
      request.memory = "host";
      request.keep_arrivals = true;
      api.CreateBuffer(users.back(), request, std::move(reply));
    }));
  }
  REQUIRE_OK(Tell(rig.west, users[0], "east:of-3001", "x"));
  REQUIRE_OK(Tell(rig.west, users[0], "east:of-3001", "x"));
  REQUIRE_OK(Tell(rig.west, users[1], "east:of-3002", "x"));
  CHECK(Tell(rig.west, users[1], "east:of-3002", "x").reason() == reasons::kQuota);
  // Users of the node itself have room of their own.
  REQUIRE_OK(Keeping(rig.east, rig.alice, "k"));
  REQUIRE_OK(Tell(rig.east, rig.alice, "k", "x"));
}

TEST_CASE("what is acknowledged must have been told") {
  Arriving rig;
  Watching watch(rig.east, rig.alice, "a");
  REQUIRE_OK(Tell(rig.east, rig.alice, "a", "x"));
  CHECK(watch.Acknowledge(1).code() == Code::kInvalidArgument);
  CHECK(watch.Take().size() == 1);
  REQUIRE_OK(watch.Acknowledge(1));
  CHECK(watch.Acknowledge(2).code() == Code::kInvalidArgument);
  watch.End();
  CHECK(watch.Acknowledge(1).reason() == reasons::kWatchNotFound);
}

TEST_CASE("a message for a node that cannot be reached fails, and says so") {
  Arriving rig;
  Watching watch(rig.east, rig.alice, "a");
  rig.cluster.FailCalls("SendMessage");
  CHECK(Tell(rig.west, rig.abroad, "east:a", "x").code() == Code::kUnavailable);
  CHECK(Tell(rig.west, rig.abroad, "south:a", "x").reason() == reasons::kPeerNotFound);
  CHECK(watch.Take().empty());
}

TEST_CASE("no ring goes into a buffer that keeps what arrives") {
  Arriving rig;
  REQUIRE_OK(Keeping(rig.east, rig.alice, "k"));
  RingOf ring(rig.east, rig.alice);
  REQUIRE_OK(ring.OpenRoute("k@0+8", "a@0+8"));
  const auto into = ring.OpenRoute("a@0+8", "k@0+8");
  CHECK(into.status().reason() == reasons::kNotApplicable);
}
