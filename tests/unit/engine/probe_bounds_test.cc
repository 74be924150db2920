// What bounds probes: peers that answer wrongly, what is lent to them, how long a result counts.
#include <atomic>
#include <map>
#include <mutex>

#include "tests/unit/engine/probe_rig.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;
using Rig = onecopy::testing::ProbeRig;

TEST_CASE("a peer that opens an absurd probe tells nothing") {
  const uint64_t bytes = GENERATE(uint64_t{0}, uint64_t{1} << 62, ~uint64_t{0});
  CAPTURE(bytes);
  Rig rig;
  rig.cluster.ChangeReplies<OpenProbeReply>(
      [bytes](OpenProbeReply& reply) { reply.bytes = bytes; });
  CHECK_FALSE(rig.Copy().plan->measured);
  CHECK(rig.Probe("verbs").viability.reason == reasons::kBadSize);
}

TEST_CASE("a peer that opens less than was asked for is measured by that") {
  const uint64_t bytes = GENERATE(1, 100, 5000);
  CAPTURE(bytes);
  Rig rig(2);
  rig.cluster.ChangeReplies<OpenProbeReply>(
      [bytes](OpenProbeReply& reply) { reply.bytes = bytes; });
  CHECK(rig.Copy().plan->measured);
  CHECK(rig.Probe("verbs").viability.viable);
}

TEST_CASE("a peer that gives a key to something else is noticed") {
  Rig rig;
  const std::string key =
      GENERATE(std::string(), std::string("nonsense"), std::string(70'000, 'x'));
  rig.cluster.ChangeReplies<OpenProbeReply>([key](OpenProbeReply& reply) { reply.key = key; });
  rig.Copy("tcp-*");
  const auto probed = rig.west.Ask<std::vector<ProbeInfo>>(
      [&](ClientApi& api, auto reply) { api.ProbeNode(rig.bob, "east", std::move(reply)); });
  REQUIRE_OK(probed);
  CHECK_FALSE(rig.Probe("verbs").viability.viable);
}

TEST_CASE("memory is lent to probes within bounds") {
  Rig rig;
  const auto open = [&](const std::string& caller, OpenProbeRequest request) {
    std::promise<Result<OpenProbeReply>> opened;
    rig.east.engine().loop().Post([&] {
      rig.east.engine().node().OpenProbe(caller, request, [&](Result<OpenProbeReply> reply) {
        opened.set_value(std::move(reply));
      });
    });
    return opened.get_future().get().status();
  };
  OpenProbeRequest request{7, "host", "", 4096, 1};
  CHECK(open("west", request).reason() == reasons::kLinkDown);  // no such connection
  request.bytes = 0;
  CHECK(open("west", request).reason() == reasons::kBadSize);
  request.bytes = (uint64_t{64} << 20) + 1;
  CHECK(open("west", request).reason() == reasons::kBadSize);
  request.bytes = ~uint64_t{0};
  CHECK(open("west", request).reason() == reasons::kBadSize);
  request = {7, "cuda", "GPU-nobody-has", 4096, 1};
  CHECK(open("west", request).reason() == reasons::kDeviceNotFound);
  request = {7, std::string(200, '?'), std::string(200, '%'), 4096, 1};
  CHECK(open("west", request).reason() == reasons::kDeviceNotFound);

  // Nothing of all that is left: a probe works.
  CHECK(rig.Copy().plan->measured);
  std::promise<Status> closed;
  rig.east.engine().loop().Post([&] {
    rig.east.engine().node().CloseProbe("west", 4711,
                                        [&](const Status& status) { closed.set_value(status); });
  });
  CHECK(closed.get_future().get().ok());
}

TEST_CASE("a pair of devices is read for longer than its memory is large: a moment tells nothing") {
  Rig rig(2, [](NodePlan& plan) { plan.options.probe_bytes = 64 << 10; });
  std::mutex mutex;
  std::map<std::string, uint64_t> read;  // by pair
  rig.control("west")->Set([&](FakeNics::Hooks& hooks) {
    hooks.on_get = [&](const LaneInfo& lane) {
      const std::lock_guard lock(mutex);
      read[lane.peer_device + " to " + lane.device] += 1;
      return OkStatus();
    };
  });
  REQUIRE_OK(rig.west.Ask<std::vector<ProbeInfo>>(
      [&](ClientApi& api, auto reply) { api.ProbeNode(rig.bob, "east", std::move(reply)); }));
  const std::lock_guard lock(mutex);
  CHECK(read.size() == 4);
  // Four that are small, for the latency; four would be all of the pair's memory once.
  for (const auto& [pair, gets] : read) {
    CAPTURE(pair);
    CHECK(gets > 4 + 2 * 4);
  }
}

TEST_CASE("what a link says of itself anew is probed anew") {
  Rig rig;
  rig.Copy();
  const size_t before = rig.opened();
  const WallTime first = rig.Probe("verbs").time;
  rig.control("west")->Change();
  // What is known serves until it is known better.
  rig.Copy();
  while (rig.Probe("verbs").time == first) std::this_thread::yield();
  CHECK(rig.opened() == before + 1);
}

TEST_CASE("what was found counts for its lifetime, give or take the jitter") {
  const double jitter = GENERATE(0.0, 0.5);
  CAPTURE(jitter);
  Rig rig(1, [&](NodePlan& plan) {
    plan.options.probe_lifetime = 1000s;
    plan.options.probe_jitter = jitter;
  });
  rig.Copy();
  const ProbeInfo probe = rig.Probe("verbs");
  const auto lives = std::chrono::round<std::chrono::milliseconds>(probe.expire_time - probe.time);
  CHECK(lives >= (jitter > 0 ? 500s : 1000s));
  CHECK(lives <= (jitter > 0 ? 1500s : 1000s));
}

TEST_CASE("nothing is known of a peer that has restarted") {
  Rig rig;
  rig.Copy();
  CHECK(rig.Probes().size() >= 2);
  rig.cluster.Restart("east");
  while (!rig.Probes().empty()) std::this_thread::yield();
}

TEST_CASE("whoever is no administrator waits with what was probed lately") {
  Rig rig;
  const auto probe = [&](bool administrator, const std::string& node) {
    Principal who = rig.bob;
    who.administrator = administrator;
    return rig.west.Ask<std::vector<ProbeInfo>>(
        [&](ClientApi& api, auto reply) { api.ProbeNode(who, node, std::move(reply)); });
  };
  const auto first = probe(false, "");
  REQUIRE_OK(first);
  // West in loopback, tcp and verbs from east.
  CHECK(std::count_if(first->begin(), first->end(), [](const ProbeInfo& info) {
          return info.source_nic.empty() && info.viability.viable;
        }) == 3);
  CHECK(rig.opened() == 2);
  REQUIRE_OK(probe(false, "east"));
  CHECK(rig.opened() == 2);
  REQUIRE_OK(probe(true, "east"));
  CHECK(rig.opened() == 4);
  CHECK(probe(true, "nowhere").status().reason() == reasons::kPeerNotFound);
}

TEST_CASE("a node that stops in the middle of a probe lets go of everything") {
  const std::string who = GENERATE("east", "west");
  CAPTURE(who);
  Rig rig(2, [](NodePlan& plan) { plan.options.probe_wait = 10ms; });
  rig.control("west")->Set([](FakeNics::Hooks& hooks) { hooks.hold = true; });
  rig.Copy("");
  CHECK(rig.control(who)->held() > 0);  // the probe goes on
  rig.cluster.Remove(who);
  CHECK(rig.control(who)->held() == 0);
}
