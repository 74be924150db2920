// Transfers by a ring into GPU memory of another daemon of this host, which makes the copies.
#include <future>
#include <thread>

#include "onecopy/reasons.h"
#include "tests/unit/engine/arriving.h"
#include "tests/unit/engine/ring_of.h"
#include "tests/unit/sharing/gpu_rig.h"
#include "transport/ring/layout.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace {

RingOf RingOfAlice(GpuRig& rig) { return {rig.cluster["east"], rig.alice}; }

Result<TransferInfo> Find(EngineNode& node, const Principal& who, const TransferId& id) {
  return node.Ask<TransferInfo>(
      [&](ClientApi& api, auto reply) { api.GetTransfer(who, id, std::move(reply)); });
}

ring::Ended Await(RingOf& ring) {
  ring::Ended ended;
  while (!ring.end().Reap(&ended)) ring.end().Sleep(std::chrono::seconds(1));
  return ended;
}

// A transfer that moves nothing until the copies of "west" are let go.
uint64_t BeginHeld(GpuRig& rig, RingOf& ring, uint64_t word) {
  rig.controls["west"]->Set([](FakeGpus::Hooks& hooks) { hooks.hold = true; });
  uint64_t number = 0;
  REQUIRE(ring.end().Submit(word, 0, 0, kGpuBytes, &number));
  while (!rig.controls["west"]->polled()) std::this_thread::yield();
  return number;
}

}  // namespace

TEST_CASE("a ring writes into another daemon's memory in place, with one negotiation") {
  GpuRig rig;
  RingOf ring = RingOfAlice(rig);
  const auto route = ring.OpenRoute("east:a", "west:b");
  REQUIRE_OK(route);
  CHECK(route->plan.path == "peer-direct");
  CHECK(route->max_bytes == ring::kMaxLongBytes);
  CHECK(route->destination == ParseEnd("west:b@0+" + std::to_string(kGpuBytes)));
  const ring::Ended all = ring.Move(route->word, 0, 0, kGpuBytes);
  REQUIRE(all.code == Code::kOk);
  CHECK(rig.Holds("west", rig.bob, "b", 1));
  rig.Put("east", rig.alice, "a", 2);
  CHECK(ring.Move(route->word, 0, kGpuBytes, 1).code == Code::kOutOfRange);
  for (uint64_t at = 0; at < kGpuBytes; at += 1000) {
    const uint64_t bytes = std::min<uint64_t>(1000, kGpuBytes - at);
    REQUIRE(ring.Move(route->word, at, at, bytes).code == Code::kOk);
  }
  CHECK(rig.Holds("west", rig.bob, "b", 2));
  CHECK(rig.cluster.calls("OpenPush") == 1);
  CHECK(rig.cluster.calls("ImportMemory") == 1);
  CHECK(rig.cluster.calls("Prepare") == 0);
  CHECK(rig.controls["east"]->imports() == 0);

  const auto done = Find(rig.cluster["east"], rig.alice, ring.IdOf(all.number));
  REQUIRE_OK(done);
  CHECK(done->role == TransferRole::kSource);
  CHECK(done->bytes == kGpuBytes);
  CHECK(done->receipt.path == "peer-direct");
  CHECK(done->receipt.evidence.at("shared") == "vmm-fd");
  CHECK(done->receipt.evidence.at("steps").find("west") != std::string::npos);
  REQUIRE(done->receipt.steps.size() == 1);
  CHECK(done->receipt.steps[0].step.node == "west");
  CHECK(done->receipt.steps[0].bytes == kGpuBytes);
}

TEST_CASE(
    "the other daemon tells who watches of what is long, under the name that its owner sees") {
  GpuRig rig;
  RingOf ring = RingOfAlice(rig);
  const auto route = ring.OpenRoute("east:a", "west:b");
  REQUIRE_OK(route);
  Watching watching(rig.cluster["west"], rig.bob, "b");
  REQUIRE_OK(watching.opened());
  // More than the engine may be behind by.
  constexpr uint64_t kMany = 200;
  constexpr uint64_t kBytes = ring::kMaxBytes + 1;
  for (uint64_t i = 0; i < kMany; ++i) {
    uint64_t number = 0;
    REQUIRE(ring.end().Submit(route->word, i, 2 * i, kBytes, &number));
    REQUIRE(number == i);
  }
  for (uint64_t i = 0; i < kMany; ++i) REQUIRE(Await(ring).code == Code::kOk);
  REQUIRE(ring.Move(route->word, 0, 0, 8).code == Code::kOk);
  REQUIRE_OK(Tell(rig.cluster["east"], rig.alice, "west:b", "that was all"));
  const std::vector<Arrival> arrivals = watching.Take();
  REQUIRE(arrivals.size() == kMany + 1);
  for (uint64_t i = 0; i < kMany; ++i) {
    REQUIRE(arrivals[i].transfer == ring.IdOf(i));
    REQUIRE(arrivals[i].range == ByteRange{2 * i, kBytes});
    REQUIRE(arrivals[i].bytes == kBytes);
  }
  CHECK(arrivals.back().message == "that was all");
  CHECK(arrivals[0].from == arrivals.back().from);
}

TEST_CASE("a destination that is taken away waits for what is being written into it in place") {
  GpuRig rig;
  RingOf ring = RingOfAlice(rig);
  const auto route = ring.OpenRoute("east:a", "west:b");
  REQUIRE_OK(route);
  const uint64_t number = BeginHeld(rig, ring, route->word);
  auto remover =
      std::async(std::launch::async, [&] { return rig.Remove("west", rig.bob, "b", true); });
  // It is going: nothing new is let in.
  while (ring.OpenRoute("east:a", "west:b").ok()) std::this_thread::yield();
  CHECK(rig.controls["west"]->imported() == 1);
  rig.controls["west"]->Release();
  CHECK(remover.get().ok());
  CHECK(Await(ring).number == number);
  CHECK(ring.Move(route->word, 0, 0, 1).code != Code::kOk);
  CHECK(ring.OpenRoute("east:a", "west:b").status().reason() == reasons::kBufferNotFound);
}

TEST_CASE("a source that is taken away waits for what another daemon reads out of it in place") {
  GpuRig rig;
  RingOf ring = RingOfAlice(rig);
  const auto route = ring.OpenRoute("east:a", "west:b");
  REQUIRE_OK(route);
  const uint64_t number = BeginHeld(rig, ring, route->word);
  auto remover =
      std::async(std::launch::async, [&] { return rig.Remove("east", rig.alice, "a", true); });
  while (rig.cluster.calls("Recall") == 0) std::this_thread::yield();
  CHECK(rig.controls["west"]->imported() == 1);
  rig.controls["west"]->Release();
  CHECK(remover.get().ok());
  CHECK(rig.controls["west"]->imported() == 0);
  CHECK(Await(ring).number == number);
  CHECK(ring.Move(route->word, 0, 0, 1).code != Code::kOk);
}

TEST_CASE("a route into another daemon's memory ends with the right to write there") {
  GpuRig rig([](const std::string&, NodePlan& plan) {
    plan.options.imported_idle = std::chrono::milliseconds(1);
  });
  const Principal carol = rig.cluster["west"].Attach(1001);
  rig.Create("west", carol, "c", "cuda:1");
  CHECK(RingOfAlice(rig).OpenRoute("east:a", "west:c").status().reason() ==
        reasons::kBufferNotFound);
  const auto grant = rig.cluster["west"].Ask<GrantInfo>([&](ClientApi& api, auto reply) {
    api.CreateGrant(carol,
                    {.range = ParseEnd("c@1000+5000"),
                     .to = "1000@east",
                     .read = false,
                     .write = true,
                     .lifetime = {}},
                    std::move(reply));
  });
  REQUIRE_OK(grant);
  const Principal again = rig.cluster["east"].Attach();
  RingOf ring(rig.cluster["east"], again);
  const auto route = ring.OpenRoute("east:a@0+10", "west:c@1000+10");
  REQUIRE_OK(route);
  CHECK(route->destination == ParseEnd("west:c@1000+5000"));
  CHECK(ring.Move(route->word, 0, 999, 2).code == Code::kOutOfRange);
  REQUIRE(ring.Move(route->word, 7, 1000, 5000).code == Code::kOk);
  REQUIRE_OK(Done(rig.cluster["west"], [&](ClientApi& api, StatusReply reply) {
    api.DeleteGrant(carol, grant->id, std::move(reply));
  }));
  CHECK(ring.Move(route->word, 0, 1000, 1).code != Code::kOk);
  AwaitUnmapped(*rig.controls["west"]);
  const auto seen = rig.cluster["west"].Register(carol, "seen", kGpuBytes);
  REQUIRE_OK(seen);
  REQUIRE_OK(rig.cluster["west"].Copy(carol, Request(":c", ":seen")));
  for (uint64_t i = 0; i < 5000; ++i) REQUIRE(seen->data[1000 + i] == PatternAt(7 + i, 1));
  CHECK(seen->data[999] == std::byte{0});
  CHECK(seen->data[6000] == std::byte{0});
}

TEST_CASE("a route into another daemon's memory ends with that daemon, and is made anew") {
  GpuRig rig;
  RingOf ring = RingOfAlice(rig);
  const auto route = ring.OpenRoute("east:a", "west:b");
  REQUIRE_OK(route);
  rig.cluster.Restart("west");
  rig.cluster.WaitForPeer("east", "west", NodeState::kConnected);
  CHECK(ring.Move(route->word, 0, 0, kGpuBytes).code != Code::kOk);
  rig.bob = rig.cluster["west"].Attach();
  rig.Create("west", rig.bob, "b", "cuda:1");
  rig.cluster.WaitForPeer("west", "east", NodeState::kConnected);
  const auto anew = ring.OpenRoute("east:a", "west:b");
  REQUIRE_OK(anew);
  REQUIRE(ring.Move(anew->word, 0, 0, kGpuBytes).code == Code::kOk);
  CHECK(rig.Holds("west", rig.bob, "b", 1));
}

TEST_CASE("a client that goes while another daemon copies for it leaves nothing mapped") {
  GpuRig rig([](const std::string&, NodePlan& plan) {
    plan.options.imported_idle = std::chrono::milliseconds(1);
  });
  auto ring = std::make_unique<RingOf>(rig.cluster["east"], rig.alice);
  const auto route = ring->OpenRoute("east:a", "west:b");
  REQUIRE_OK(route);
  BeginHeld(rig, *ring, route->word);
  ring.reset();
  auto closer =
      std::async(std::launch::async, [&] { return rig.Remove("east", rig.alice, "a", true); });
  while (rig.cluster.calls("Recall") == 0) std::this_thread::yield();
  rig.controls["west"]->Release();
  CHECK(closer.get().ok());
  AwaitUnmapped(*rig.controls["west"]);
}

TEST_CASE("a node that shuts down finishes what it copies for another one's ring") {
  GpuRig rig;
  RingOf ring = RingOfAlice(rig);
  const auto route = ring.OpenRoute("east:a", "west:b");
  REQUIRE_OK(route);
  const uint64_t number = BeginHeld(rig, ring, route->word);
  std::thread restart([&] { rig.cluster.Restart("west"); });
  rig.controls["west"]->Release();
  restart.join();
  CHECK(rig.controls["west"]->imported() == 0);
  // Its end is told, whether the answer was quicker than the end of the connection or not.
  const ring::Ended ended = Await(ring);
  CHECK(ended.number == number);
  CHECK((ended.code == Code::kOk || ended.code == Code::kUnavailable));
}

TEST_CASE("what the other daemon answers of a push must make sense") {
  GpuRig rig([](const std::string&, NodePlan& plan) {
    plan.options.imported_idle = std::chrono::milliseconds(1);
  });
  RingOf ring = RingOfAlice(rig);
  const uint64_t most = GENERATE(uint64_t{0}, uint64_t{1}, ring::kMaxBytes - 1);
  rig.cluster.ChangeReplies<OpenPushReply>([&](OpenPushReply& reply) { reply.most_bytes = most; });
  CHECK(ring.OpenRoute("east:a@0+8", "west:b").status().reason() == reasons::kBadArgument);
  AwaitUnmapped(*rig.controls["west"]);
}

TEST_CASE("a long transfer asks for a route that only short ones take, and is told") {
  GpuRig rig;
  RingOf ring = RingOfAlice(rig);
  rig.cluster.ChangeReplies<OpenPushReply>(
      [&](OpenPushReply& reply) { reply.most_bytes = ring::kMaxBytes; });
  CHECK(ring.OpenRoute("east:a", "west:b").status().reason() == reasons::kNotApplicable);
  const auto route = ring.OpenRoute("east:a@0+8", "west:b");
  REQUIRE_OK(route);
  CHECK(route->max_bytes == ring::kMaxBytes);
  CHECK(ring.Move(route->word, 0, 0, ring::kMaxBytes).code == Code::kOk);
  CHECK(ring.Move(route->word, 0, 0, ring::kMaxBytes + 1).code == Code::kInvalidArgument);
}
