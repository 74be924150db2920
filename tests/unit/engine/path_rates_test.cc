// What transfers made by whole paths: what is kept of it, and what comes of it.
#include "daemon/engine/probing/path_rates.h"

#include <algorithm>
#include <thread>

#include "tests/unit/engine/probe_rig.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;
using Rig = onecopy::testing::ProbeRig;

namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kLong = 16 * kMiB;

// With a clock of the test's own.
struct Rates {
  os::Clock::time_point now = os::Clock::now();
  PathRates rates{0.01, [this] { return now; }};
  plan::PathKey way{"rdma-staged", "verbs", {"host", ""}, {"host", ""}, true, true};

  void Note(double rate, uint64_t bytes = kLong) {
    rates.Note("east", way, bytes, static_cast<double>(bytes) / rate);
  }
  plan::PathRate Found(uint64_t bytes = kLong, const std::string& node = "east") {
    plan::Estimates estimates;
    rates.AddTo(estimates, node);
    const plan::PathRate* found = estimates.FindPath(way, bytes);
    return found == nullptr ? plan::PathRate() : *found;
  }
  double Usual(uint64_t bytes = kLong) {
    const auto usual = rates.UsualOf("east", way, bytes);
    return usual ? usual->bytes_per_second : 0;
  }
};

bool IsNear(double value, double expected) {
  return value > 0.999 * expected && value < 1.001 * expected;
}

// Two nodes, a fake RDMA link between them, and long buffers of the daemons' own.
struct LongRig : Rig {
  LongRig() : Rig(1) {
    REQUIRE_OK(east.CreateBuffer(alice, "long", kLong));
    REQUIRE_OK(west.CreateBuffer(bob, "sink", kLong));
    REQUIRE_OK(west.CreateBuffer(bob, "other", kLong));
  }

  TransferInfo Move(const std::string& path, const std::string& to = "west:sink") {
    TransferRequest request = Request("east:long", to);
    request.policy.path_glob = path;
    const auto moved = west.Copy(bob, request);
    REQUIRE_OK(moved);
    INFO(moved->error.ToString());
    REQUIRE(moved->state == TransferState::kSucceeded);
    return *moved;
  }
  NodeInfo Node(const std::string& name = "east") {
    const auto node = west.Ask<NodeInfo>(
        [&](ClientApi& api, auto reply) { api.GetNode(bob, name, std::move(reply)); });
    REQUIRE_OK(node);
    return *node;
  }
};

}  // namespace

TEST_CASE("the median of the last five counts, and of two the faster") {
  Rates rates;
  CHECK(rates.Found().transfers == 0);
  rates.Note(10e9);
  CHECK(rates.Found().transfers == 1);
  rates.Note(40e9);
  CHECK(IsNear(rates.Found().bytes_per_second, 40e9));
  rates.Note(20e9);
  CHECK(IsNear(rates.Found().bytes_per_second, 20e9));
  for (const double rate : {1e9, 1e9, 1e9}) rates.Note(rate);
  CHECK(rates.Found().transfers == 5);
  CHECK(IsNear(rates.Found().bytes_per_second, 1e9));
}

TEST_CASE("short transfers tell nothing, and unlike sizes are not mixed") {
  Rates rates;
  rates.Note(10e9, kLong - 1);
  CHECK(rates.Found().transfers == 0);
  rates.Note(10e9, kLong);
  rates.Note(40e9, 1024 * kMiB);
  CHECK(IsNear(rates.Found(kLong).bytes_per_second, 10e9));
  CHECK(IsNear(rates.Found(4096 * kMiB).bytes_per_second, 40e9));
  CHECK(rates.Found(kLong, "north").transfers == 0);
}

TEST_CASE("what is hours old is forgotten") {
  Rates rates;
  for (int i = 0; i < 3; ++i) rates.Note(10e9);
  rates.now += std::chrono::hours(5);
  CHECK(rates.Found().transfers == 3);
  CHECK(rates.Usual() > 0);
  rates.now += std::chrono::hours(2);
  CHECK(rates.Found().transfers == 0);
  CHECK(rates.Usual() == 0);
  rates.Note(1e9);
  CHECK(rates.Found().transfers == 1);
}

TEST_CASE("time to find out more is saved up at one percent, and spent by trying") {
  Rates rates;
  rates.Note(10e9);
  CHECK(rates.Found().spare_seconds == 0);
  rates.now += std::chrono::seconds(29);
  CHECK(rates.Found().spare_seconds == 0);
  rates.now += std::chrono::seconds(31);
  CHECK(IsNear(rates.Found().spare_seconds, 0.6));
  rates.now += std::chrono::hours(1);
  CHECK(IsNear(rates.Found().spare_seconds, 6));
  rates.rates.TriedAgain("east", rates.way);
  CHECK(rates.Found().spare_seconds == 0);
}

TEST_CASE("what is usual is the best that three transfers have shown, not a single one") {
  Rates rates;
  rates.Note(90e9);
  rates.Note(10e9);
  CHECK(rates.Usual() == 0);
  rates.Note(11e9);
  CHECK(IsNear(rates.Usual(), 11e9));
  // It does not become usual to be slow.
  for (int i = 0; i < 10; ++i) rates.Note(1e9);
  CHECK(IsNear(rates.Usual(), 11e9));
  CHECK(IsNear(rates.Usual(1024 * kMiB), 11e9));
}

TEST_CASE("only so many ways are kept, and what changed is not") {
  Rates rates;
  for (int i = 0; i < 5000; ++i) {
    rates.now += std::chrono::seconds(1);
    rates.way.source.device = "GPU-" + std::to_string(i);
    rates.Note(10e9);
  }
  CHECK(rates.rates.ways() == 4096);
  CHECK(rates.Found().transfers == 1);
  rates.way.source.device = "GPU-0";
  CHECK(rates.Found().transfers == 0);
  rates.rates.LinkChanged("tcp");
  CHECK(rates.rates.ways() == 4096);
  rates.rates.LinkChanged("verbs");
  CHECK(rates.rates.ways() == 0);
  rates.Note(10e9);
  rates.rates.PeerRestarted("north");
  CHECK(rates.rates.ways() == 1);
  rates.rates.PeerRestarted("east");
  CHECK(rates.rates.ways() == 0);
}

TEST_CASE("a plan rests on what transfers made by its whole path, and node show tells it") {
  const std::string path = GENERATE("tcp-staged", "rdma-staged", "tcp-direct");
  CAPTURE(path);
  LongRig rig;
  for (int i = 0; i < 2; ++i) rig.Move(path);
  TransferRequest request = Request("east:long", "west:sink");
  request.policy.path_glob = path;
  request.validate_only = true;
  const auto planned = rig.west.Start(rig.bob, request);
  REQUIRE_OK(planned);
  const Plan& way = *planned->plan;
  CHECK(way.measured);
  CHECK(way.measured_transfers == 2);
  CHECK(way.measure_time > WallTime());
  const std::vector<PathRateInfo> rates = rig.Node().path_rates;
  REQUIRE(rates.size() == 1);
  CHECK(rates[0].path == path);
  CHECK(rates[0].least_bytes == kLong);
  CHECK(rates[0].transfers == 2);
  CHECK(IsNear(rates[0].bytes_per_second, way.estimated_bytes_per_second));
}

TEST_CASE("inside a node, too") {
  LongRig rig;
  for (int i = 0; i < 2; ++i) {
    REQUIRE_OK(rig.west.Copy(rig.bob, Request("west:other", "west:sink")));
  }
  const std::vector<PathRateInfo> rates = rig.Node("west").path_rates;
  REQUIRE(rates.size() == 1);
  CHECK(rates[0].path == "local");
}

TEST_CASE("a staged transfer far slower than those before says so, and is counted") {
  LongRig rig;
  double longest = 0;
  for (int i = 0; i < 3; ++i) {
    longest = std::max(longest, rig.Move("rdma-staged").receipt.seconds);
  }
  const uint64_t before = rig.Node().slow_transfers;
  rig.control("west")->Set([](FakeNics::Hooks& hooks) { hooks.hold_all = true; });
  TransferRequest request = Request("east:long", "west:sink");
  request.policy.path_glob = "rdma-staged";
  const auto started = rig.west.Start(rig.bob, request);
  REQUIRE_OK(started);
  rig.west.Wait(rig.bob, started->id, TransferState::kRunning);
  // However slow the machine is, this is slower.
  const auto until = os::Clock::now() + std::chrono::duration<double>(3 * longest);
  while (os::Clock::now() < until) std::this_thread::yield();
  rig.control("west")->Release();
  const TransferInfo slow = rig.west.Wait(rig.bob, started->id);
  REQUIRE(slow.state == TransferState::kSucceeded);
  REQUIRE(slow.receipt.evidence.contains("alarm"));
  INFO(slow.receipt.evidence.at("alarm"));
  CHECK(Has(slow.receipt.evidence.at("alarm"), "far slower than measured before"));
  CHECK(rig.Node().slow_transfers == before + 1);
}

TEST_CASE("transfers that run beside each other tell nothing about their path") {
  LongRig rig;
  rig.control("west")->Set([](FakeNics::Hooks& hooks) { hooks.hold_all = true; });
  std::vector<TransferId> ids;
  for (const char* to : {"west:sink", "west:other"}) {
    TransferRequest request = Request("east:long", to);
    request.policy.path_glob = "rdma-direct";
    const auto started = rig.west.Start(rig.bob, request);
    REQUIRE_OK(started);
    ids.push_back(started->id);
    rig.west.Wait(rig.bob, started->id, TransferState::kRunning);
  }
  rig.control("west")->Release();
  for (const TransferId& id : ids) {
    CHECK(rig.west.Wait(rig.bob, id).state == TransferState::kSucceeded);
  }
  CHECK(rig.Node().path_rates.empty());
  rig.Move("rdma-direct");
  CHECK(rig.Node().path_rates.size() == 1);
}

TEST_CASE("nor does one whose source sends to another node meanwhile") {
  std::map<std::string, std::shared_ptr<FakeNics>> nics;
  EngineCluster cluster({"east", "north", "west"}, [&](const std::string& name, NodePlan& plan) {
    nics[name] = std::make_shared<FakeNics>();
    plan.links.push_back(MakeFakeRdma(MakeTcpLink(name), 1, nics[name]));
  });
  std::map<std::string, Principal> who;
  for (const char* name : {"east", "north", "west"}) {
    who[name] = cluster[name].Attach();
    REQUIRE_OK(cluster[name].CreateBuffer(who[name], "b", kLong));
  }
  const auto to = [](const std::string& node) {
    TransferRequest request = Request("east:b", node + ":b");
    request.policy.path_glob = "rdma-direct";
    return request;
  };
  nics["north"]->Set([](FakeNics::Hooks& hooks) { hooks.hold_all = true; });
  const auto busy = cluster["north"].Start(who["north"], to("north"));
  REQUIRE_OK(busy);
  cluster["north"].Wait(who["north"], busy->id, TransferState::kRunning);
  const auto rates = [&] {
    const auto node = cluster["west"].Ask<NodeInfo>(
        [&](ClientApi& api, auto reply) { api.GetNode(who["west"], "east", std::move(reply)); });
    REQUIRE_OK(node);
    return node->path_rates.size();
  };
  REQUIRE_OK(cluster["west"].Copy(who["west"], to("west")));
  CHECK(rates() == 0);
  nics["north"]->Release();
  CHECK(cluster["north"].Wait(who["north"], busy->id).state == TransferState::kSucceeded);
  REQUIRE_OK(cluster["west"].Copy(who["west"], to("west")));
  CHECK(rates() == 1);
}
