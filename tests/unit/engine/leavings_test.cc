// What tickets and grants leave behind when they go: nothing.
#include "tests/support/engine_cluster.h"

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
