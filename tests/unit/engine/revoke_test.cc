// A right that ends, and what ends with it.
#include <climits>

#include "onecopy/reasons.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/fake_rdma.h"
#include "tests/support/memory.h"
#include "transport/core/base/mutex.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;
using namespace std::chrono_literals;

namespace {

constexpr uint64_t kLongBytes = 3'000'001;

// A buffer of alice's on east, and one of bob's, who is another user, on west.
struct RevokeRig {
  RevokeRig()
      : cluster({"east", "west"},
                [this](const std::string& name, NodePlan& plan) {
                  plan.options.stall_timeout = 1h;
                  plan.links.push_back(
                      MakeFakeRdma(MakeTcpLink(name), 1, name == "east" ? owner : reader));
                }),
        east(cluster["east"]),
        west(cluster["west"]),
        alice(east.Attach(1000)),
        bob(west.Attach(2000)) {
    REQUIRE_OK(east.CreateBuffer(alice, "a", kLongBytes));
    REQUIRE_OK(east.CreateBuffer(alice, "other", kLongBytes));
    REQUIRE_OK(west.CreateBuffer(bob, "b", kLongBytes));
    owner->Set([this](FakeNics::Hooks& hooks) {
      hooks.on_end_leases = [this](const RegionRef& region) {
        const MutexLock lock(mutex);
        ended.push_back(region.get());
      };
    });
  }

  GrantInfo Grant(const std::string& buffer, bool write = false,
                  std::optional<std::chrono::milliseconds> lifetime = {}) {
    const auto grant = east.Ask<GrantInfo>([&](ClientApi& api, auto reply) {
      api.CreateGrant(alice, {ParseEnd(buffer), "2000", !write, write, lifetime}, std::move(reply));
    });
    REQUIRE_OK(grant);
    return *grant;
  }
  void TakeBack(const GrantInfo& grant) {
    REQUIRE_OK(east.Ask<bool>([&](ClientApi& api, auto reply) {
      api.DeleteGrant(alice, grant.id, [reply = std::move(reply)](const Status& status) mutable {
        if (status.ok()) return reply(true);
        reply(status);
      });
    }));
  }
  TransferRequest Move(const std::string& path) {
    TransferRequest request = Request("east:a", "west:b");
    request.policy.path_glob = path;
    return request;
  }
  // How often the link was told about any region; more than one region is one too many.
  size_t leases_ended() {
    const MutexLock lock(mutex);
    for (const Region* region : ended) CHECK(region == ended.front());
    return ended.size();
  }

  std::shared_ptr<FakeNics> owner = std::make_shared<FakeNics>();
  std::shared_ptr<FakeNics> reader = std::make_shared<FakeNics>();
  Mutex mutex;
  std::vector<const Region*> ended ONECOPY_GUARDED_BY(mutex);
  EngineCluster cluster;
  EngineNode& east;
  EngineNode& west;
  Principal alice;
  Principal bob;
};

}  // namespace

TEST_CASE("what a transfer leaves for the next one ends with the right that both rest on") {
  const std::string how = GENERATE("taken back", "expired");
  CAPTURE(how);
  RevokeRig rig;
  const bool expires = how == "expired";
  const GrantInfo grant =
      rig.Grant("a", false, expires ? std::optional(50ms) : std::optional<decltype(50ms)>());
  if (!expires) {
    const auto copied = rig.west.Copy(rig.bob, rig.Move("rdma-direct"));
    REQUIRE_OK(copied);
    REQUIRE(copied->state == TransferState::kSucceeded);
    CHECK(rig.leases_ended() == 0);
    rig.TakeBack(grant);
  }
  while (rig.leases_ended() == 0) std::this_thread::yield();
  const Status refused = rig.west.Copy(rig.bob, rig.Move("rdma-direct")).status();
  CHECK(refused.code() == (expires ? Code::kPermissionDenied : Code::kNotFound));
  CHECK(refused.reason() == (expires ? reasons::kGrantExpired : reasons::kBufferNotFound));
  CHECK(rig.leases_ended() == 1);
}

TEST_CASE("a right to write gives no peer a key, and takes none") {
  RevokeRig rig;
  const GrantInfo write = rig.Grant("a", true);
  rig.TakeBack(write);
  CHECK(rig.leases_ended() == 0);
}

TEST_CASE("transfers that rest on a right end with it, and so does what they read by") {
  const std::string how = GENERATE("taken back", "expired");
  const std::string path = GENERATE("rdma-direct", "rdma-staged");
  CAPTURE(how, path);
  RevokeRig rig;
  // It goes on until it is made to end.
  rig.reader->Set([](FakeNics::Hooks& hooks) { hooks.repeat = INT_MAX; });
  const GrantInfo grant = rig.Grant(
      "a", false, how == "expired" ? std::optional(2000ms) : std::optional<decltype(2000ms)>());
  const auto started = rig.west.Start(rig.bob, rig.Move(path));
  REQUIRE_OK(started);
  rig.west.Wait(rig.bob, started->id, TransferState::kRunning);
  if (how == "taken back") rig.TakeBack(grant);
  const TransferInfo ended = rig.west.Wait(rig.bob, started->id);
  CHECK(ended.state == TransferState::kFailed);
  INFO(ended.error.ToString());
  CHECK(ended.error.code() == Code::kPermissionDenied);
  CHECK(ended.error.reason() == (how == "expired" ? reasons::kGrantExpired : reasons::kNotOwner));
  // With the right, and once more when the transfer's own key is closed.
  while (rig.leases_ended() < 2) std::this_thread::yield();
  CHECK(rig.leases_ended() == 2);
}
