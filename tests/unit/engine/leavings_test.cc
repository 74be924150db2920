// What tickets and grants leave behind when they go: nothing.
#include <string_view>
#include <thread>

#include "onecopy/reasons.h"
#include "tests/unit/engine/between.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace {

size_t Timers(EngineNode& node) {
  std::promise<size_t> timers;
  node.engine().loop().Post([&] { timers.set_value(node.engine().loop().timers()); });
  return timers.get_future().get();
}

// Those of heartbeats and the like come and go.
constexpr size_t kOthers = 16;

}  // namespace

TEST_CASE("grants that are taken back, or whose buffer goes, leave no timer") {
  EngineCluster cluster({"east"});
  EngineNode& east = cluster["east"];
  const Principal alice = east.Attach();
  const size_t before = Timers(east);
  for (const bool remove : {false, true}) {
    REQUIRE_OK(east.CreateBuffer(alice, "a", 4096));
    for (int i = 0; i < 200; ++i) {
      const auto grant = east.Ask<GrantInfo>([&](ClientApi& api, auto reply) {
        api.CreateGrant(alice, {{"", "a", 0, 1}, "1001", true, false, std::chrono::hours(24)},
                        std::move(reply));
      });
      REQUIRE_OK(grant);
      if (remove) continue;
      REQUIRE_OK(east.Ask<bool>([&](ClientApi& api, auto reply) {
        api.DeleteGrant(alice, grant->id, [reply = std::move(reply)](const Status& gone) mutable {
          if (gone.ok()) return reply(true);
          reply(gone);
        });
      }));
    }
    REQUIRE_OK(east.Ask<bool>([&](ClientApi& api, auto reply) {
      api.DeleteBuffer(alice, "", "a", false,
                       [reply = std::move(reply)](const Status& gone) mutable {
                         if (gone.ok()) return reply(true);
                         reply(gone);
                       });
    }));
    CHECK(Timers(east) <= before + kOthers);
  }
}

TEST_CASE("transfers that have ended leave no timer of their tickets") {
  EngineCluster cluster({"east", "west"});
  const Principal alice = cluster["east"].Attach();
  REQUIRE_OK(cluster["east"].CreateBuffer(alice, "a", 4096));
  REQUIRE_OK(cluster["east"].CreateBuffer(alice, "b", 4096));
  const Principal bob = cluster["west"].Attach();
  REQUIRE_OK(cluster["west"].CreateBuffer(bob, "c", 4096));
  const size_t before = Timers(cluster["east"]);
  for (int i = 0; i < 100; ++i) {
    REQUIRE_OK(cluster["east"].Copy(alice, Request("a", "b")));
    REQUIRE_OK(cluster["west"].Copy(bob, Request("east:a", "c")));
  }
  CHECK(Timers(cluster["east"]) <= before + kOthers);
}

TEST_CASE("transfers that are refused leave no ticket, whoever asked and whoever refused") {
  EngineCluster cluster({"east", "west"});
  EngineNode& east = cluster["east"];
  EngineNode& west = cluster["west"];
  const Principal alice = east.Attach();
  const Principal bob = west.Attach();
  REQUIRE_OK(east.CreateBuffer(alice, "a", 4096));
  REQUIRE_OK(east.CreateBuffer(alice, "b", 4096));
  REQUIRE_OK(west.CreateBuffer(bob, "c", 4096));
  const size_t before = Timers(east);
  const auto refused = [](EngineNode& at, const Principal& who, TransferRequest request,
                          std::string_view reason) {
    CHECK(at.Start(who, std::move(request)).status().reason() == reason);
  };
  const auto by = [](TransferRequest request, const char* path) {
    request.policy.path_glob = path;
    return request;
  };
  TransferRequest several = Request("east:a", "c");
  several.more_sources = {ParseEnd("east:b")};
  several.ranges = {{{0, 10}, {0, 10}, 0, 0}, {{0, 10}, {20, 10}, 1, 0}};
  for (int i = 0; i < 100; ++i) {
    refused(east, alice, Request("a", "west:nothing"), reasons::kBufferNotFound);
    refused(east, alice, Request("a", "nothing"), reasons::kBufferNotFound);
    refused(west, bob, Request("east:a", "nothing"), reasons::kBufferNotFound);
    refused(west, bob, by(Request("east:a", "c"), "rdma-*"), reasons::kPolicyUnmet);
    refused(west, bob, by(several, "rdma-*"), reasons::kPolicyUnmet);
  }
  CHECK(Timers(east) <= before + kOthers);

  SECTION("nor does one that was answered too late") {
    cluster.HoldCalls("Reserve");
    TransferRequest late = Request("east:a", "c");
    late.deadline = std::chrono::milliseconds(1);
    for (int i = 0; i < 100; ++i) refused(west, bob, late, reasons::kDeadline);
    cluster.ReleaseCalls();
    REQUIRE_OK(west.Copy(bob, Request("east:a", "c")));  // comes after them
    while (cluster.calls("Finish") < 100) std::this_thread::yield();
    CHECK(Timers(east) <= before + kOthers);
  }
}

TEST_CASE("routes of rings that come to nothing leave no ticket") {
  Between with;
  const size_t before = Timers(with.east);
  RingOf pull(with.west, with.in_west);
  RingOf push(with.east, with.in_east);
  with.cluster.FailCalls("OpenRange");
  for (int i = 0; i < 100; ++i) {
    CHECK_FALSE(pull.OpenRoute("east:a", "west:b").ok());
    CHECK_FALSE(push.OpenRoute("a", "west:b").ok());
    CHECK(push.OpenRoute("a", "west:nothing").status().reason() == reasons::kBufferNotFound);
  }
  CHECK(Timers(with.east) <= before + kOthers);
  with.cluster.AllowCalls("OpenRange");
  REQUIRE_OK(pull.OpenRoute("east:a", "west:b"));
}
