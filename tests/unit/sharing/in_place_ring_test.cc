// Transfers by a ring out of GPU memory of another daemon of this host, used in place.
#include <future>

#include "onecopy/reasons.h"
#include "tests/unit/engine/ring_of.h"
#include "tests/unit/sharing/gpu_rig.h"
#include "transport/ring/layout.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

namespace {

RingOf RingOfBob(GpuRig& rig) { return {rig.cluster["west"], rig.bob}; }

Status Do(EngineNode& node, const std::function<void(ClientApi&, StatusReply)>& call) {
  return node
      .Ask<bool>([&](ClientApi& api, auto reply) {
        call(api, [reply = std::move(reply)](const Status& status) mutable {
          if (!status.ok()) return reply(status);
          reply(true);
        });
      })
      .status();
}

// A new route from "a" to "b", and all of what the seed made, by it.
void CheckMovesAll(GpuRig& rig, RingOf& ring, uint64_t seed) {
  const auto route = ring.OpenRoute("east:a", "west:b");
  REQUIRE_OK(route);
  REQUIRE(ring.Move(route->word, 0, 0, kGpuBytes).code == Code::kOk);
  CHECK(rig.Holds("west", rig.bob, "b", seed));
}

// Of another user of east's, who may do nothing by herself.
struct Carol {
  explicit Carol(GpuRig& rig) : rig(rig), in_west(rig.cluster["west"].Attach(1001)) {
    rig.Create("west", in_west, "c", "cuda:1");
  }
  Result<GrantInfo> MayRead(const std::string& range) {
    return rig.cluster["east"].Ask<GrantInfo>([&](ClientApi& api, auto reply) {
      api.CreateGrant(rig.alice,
                      {.range = ParseEnd(range),
                       .to = "1001@west",
                       .read = true,
                       .write = false,
                       .lifetime = {}},
                      std::move(reply));
    });
  }
  GpuRig& rig;
  Principal in_west;
};

}  // namespace

TEST_CASE("a ring copies out of another daemon's memory in place, with one negotiation") {
  GpuRig rig;
  RingOf ring = RingOfBob(rig);
  const auto route = ring.OpenRoute("east:a", "west:b");
  REQUIRE_OK(route);
  CHECK(route->plan.path == "peer-direct");
  CHECK(route->max_bytes == ring::kMaxLongBytes);
  CHECK(route->source == ParseEnd("east:a@0+" + std::to_string(kGpuBytes)));
  const ring::Ended all = ring.Move(route->word, 0, 0, kGpuBytes);
  CHECK(all.code == Code::kOk);
  CHECK(rig.Holds("west", rig.bob, "b", 1));
  rig.Put("east", rig.alice, "a", 2);
  CHECK(ring.Move(route->word, kGpuBytes, 0, 1).code == Code::kOutOfRange);
  for (uint64_t at = 0; at < kGpuBytes; at += 1000) {
    const uint64_t bytes = std::min<uint64_t>(1000, kGpuBytes - at);
    REQUIRE(ring.Move(route->word, at, at, bytes).code == Code::kOk);
  }
  CHECK(rig.Holds("west", rig.bob, "b", 2));
  CHECK(rig.cluster.calls("ImportMemory") == 1);
  CHECK(rig.cluster.calls("OpenRange") == 1);
  CHECK(rig.cluster.calls("Prepare") == 0);

  const auto done = rig.cluster["west"].Ask<TransferInfo>([&](ClientApi& api, auto reply) {
    api.GetTransfer(rig.bob, ring.IdOf(all.number), std::move(reply));
  });
  REQUIRE_OK(done);
  CHECK(done->state == TransferState::kSucceeded);
  CHECK(done->bytes == kGpuBytes);
  CHECK(done->receipt.path == "peer-direct");
  CHECK(done->receipt.evidence.at("shared") == "vmm-fd");
  REQUIRE(done->receipt.steps.size() == 1);
  CHECK(done->receipt.steps[0].step.node == "west");
  CHECK(done->receipt.steps[0].bytes == kGpuBytes);
}

TEST_CASE("in place a ring reads what a grant allows and a view is, counted from its beginning") {
  GpuRig rig;
  Carol carol(rig);
  RingOf ring(rig.cluster["west"], carol.in_west);
  REQUIRE_OK(rig.cluster["east"].Ask<std::vector<BufferInfo>>([&](ClientApi& api, auto reply) {
    api.CreateViews(rig.alice, {{.name = "part", .range = ParseEnd("a@1000+5000")}},
                    std::move(reply));
  }));
  REQUIRE_OK(carol.MayRead("part@100+200"));
  CHECK(ring.OpenRoute("east:part", "west:c").status().reason() == reasons::kNotOwner);
  const auto route = ring.OpenRoute("east:part@100+200", "west:c");
  REQUIRE_OK(route);
  CHECK(route->source == ParseEnd("east:part@100+200"));
  CHECK(ring.Move(route->word, 99, 0, 1).code == Code::kOutOfRange);
  CHECK(ring.Move(route->word, 300, 0, 1).code == Code::kOutOfRange);
  REQUIRE(ring.Move(route->word, 100, 7, 200).code == Code::kOk);
  const auto seen = rig.cluster["west"].Register(carol.in_west, "seen", kGpuBytes);
  REQUIRE_OK(seen);
  REQUIRE_OK(rig.cluster["west"].Copy(carol.in_west, Request(":c", ":seen")));
  for (uint64_t i = 0; i < 200; ++i) REQUIRE(seen->data[7 + i] == PatternAt(1100 + i, 1));
  CHECK(seen->data[6] == std::byte{0});
  CHECK(seen->data[207] == std::byte{0});
}

TEST_CASE("in place a ring's route ends with the grant, and lets the memory go") {
  GpuRig rig([](const std::string&, NodePlan& plan) {
    plan.options.imported_idle = std::chrono::milliseconds(1);
  });
  Carol carol(rig);
  RingOf ring(rig.cluster["west"], carol.in_west);
  const auto grant = carol.MayRead("a@0+4096");
  REQUIRE_OK(grant);
  const auto route = ring.OpenRoute("east:a@0+4096", "west:c");
  REQUIRE_OK(route);
  REQUIRE(ring.Move(route->word, 0, 0, 4096).code == Code::kOk);
  CHECK(rig.controls["west"]->imported() == 1);
  REQUIRE_OK(Do(rig.cluster["east"], [&](ClientApi& api, StatusReply reply) {
    api.DeleteGrant(rig.alice, grant->id, std::move(reply));
  }));
  CHECK(ring.Move(route->word, 0, 0, 4096).code != Code::kOk);
  AwaitUnmapped(*rig.controls["west"]);
  CHECK(ring.OpenRoute("east:a@0+4096", "west:c").status().reason() == reasons::kBufferNotFound);
}

TEST_CASE("a buffer that is taken away waits for what a ring copies out of it in place") {
  GpuRig rig;
  RingOf ring = RingOfBob(rig);
  const auto route = ring.OpenRoute("east:a", "west:b");
  REQUIRE_OK(route);
  rig.controls["west"]->Set([](FakeGpus::Hooks& hooks) { hooks.hold = true; });
  uint64_t number = 0;
  REQUIRE(ring.end().Submit(route->word, 0, 0, kGpuBytes, &number));
  while (!rig.controls["west"]->polled()) std::this_thread::yield();
  auto remover =
      std::async(std::launch::async, [&] { return rig.Remove("east", rig.alice, "a", true); });
  while (rig.cluster.calls("Recall") == 0) std::this_thread::yield();
  CHECK(rig.controls["west"]->imported() == 1);
  rig.controls["west"]->Release();
  CHECK(remover.get().ok());
  CHECK(rig.controls["west"]->imported() == 0);
  ring::Ended ended;
  while (!ring.end().Reap(&ended)) ring.end().Sleep(std::chrono::seconds(1));
  CHECK(ended.number == number);
  CHECK(ring.Move(route->word, 0, 0, 1).code != Code::kOk);
}

TEST_CASE("in place a ring's route ends with the other daemon, and is made anew") {
  GpuRig rig;
  RingOf ring = RingOfBob(rig);
  const auto route = ring.OpenRoute("east:a", "west:b");
  REQUIRE_OK(route);
  rig.cluster.Restart("east");
  rig.cluster.WaitForPeer("east", "west", NodeState::kConnected);
  AwaitUnmapped(*rig.controls["west"]);
  CHECK(ring.Move(route->word, 0, 0, 1).code != Code::kOk);
  rig.alice = rig.cluster["east"].Attach();
  rig.Create("east", rig.alice, "a", "cuda:0");
  rig.Put("east", rig.alice, "a", 5);
  rig.cluster.WaitForPeer("west", "east", NodeState::kConnected);
  CheckMovesAll(rig, ring, 5);
}

TEST_CASE("a mapping of a buffer that is not there any more is not used for a route") {
  GpuRig rig;
  REQUIRE_OK(RingOfBob(rig).OpenRoute("east:a", "west:b"));
  rig.cluster.FailCalls("Recall");
  REQUIRE_OK(rig.Remove("east", rig.alice, "a"));
  rig.cluster.AllowCalls("Recall");
  rig.Create("east", rig.alice, "a", "cuda:0");
  rig.Put("east", rig.alice, "a", 4);
  const Principal bob = rig.cluster["west"].Attach();
  RingOf ring(rig.cluster["west"], bob);
  CheckMovesAll(rig, ring, 4);
}

TEST_CASE("a route in place is called back while it is made") {
  GpuRig rig;
  RingOf ring = RingOfBob(rig);
  rig.cluster.HoldCalls("OpenRange");
  auto opener =
      std::async(std::launch::async, [&] { return ring.OpenRoute("east:a", "west:b").status(); });
  while (rig.controls["west"]->imported() == 0) std::this_thread::yield();
  auto remover =
      std::async(std::launch::async, [&] { return rig.Remove("east", rig.alice, "a", true); });
  while (rig.cluster.calls("Recall") == 0) std::this_thread::yield();
  rig.cluster.ReleaseCalls();
  CHECK_FALSE(opener.get().ok());
  CHECK(remover.get().ok());
  AwaitUnmapped(*rig.controls["west"]);
}

TEST_CASE("a daemon that lends another range than it promised is not believed") {
  GpuRig rig([](const std::string&, NodePlan& plan) {
    plan.options.imported_idle = std::chrono::milliseconds(1);
  });
  RingOf ring = RingOfBob(rig);
  constexpr uint64_t kMost = UINT64_MAX;
  const ByteRange lent =
      GENERATE(ByteRange{0, kGpuBytes + 1}, ByteRange{1, kGpuBytes}, ByteRange{kMost, kGpuBytes},
               ByteRange{0, 0}, ByteRange{0, kMost});
  CAPTURE(lent.offset, lent.bytes);
  rig.cluster.ChangeReplies<OpenRangeReply>([&](OpenRangeReply& reply) { reply.lent = lent; });
  const Status refused = ring.OpenRoute("east:a", "west:b").status();
  CHECK(refused.reason() == reasons::kLinkDown);
  CHECK(refused.message().find(" lends ") != std::string::npos);
  AwaitUnmapped(*rig.controls["west"]);
}

TEST_CASE("routes in place of one user leave room for another's, and for transfers") {
  GpuRig rig;
  Carol carol(rig);
  REQUIRE_OK(carol.MayRead("a"));
  constexpr size_t kMany = 65;
  std::vector<std::unique_ptr<RingOf>> rings;
  for (size_t i = 0; i < kMany; ++i) {
    rig.Create("east", rig.alice, "a" + std::to_string(i), "cuda:0");
    if (i % 40 > 0) continue;  // a ring has fewer routes
    rings.push_back(std::make_unique<RingOf>(rig.cluster["west"], rig.cluster["west"].Attach()));
  }
  // One after the other, or all at once, before any memory is there to be counted.
  const bool at_once = GENERATE(false, true);
  CAPTURE(at_once);
  if (at_once) rig.cluster.HoldCalls("ImportMemory");
  std::vector<std::future<Status>> opened;
  for (size_t i = 0; i < kMany; ++i) {
    opened.push_back(std::async(at_once ? std::launch::async : std::launch::deferred, [&, i] {
      return rings[i / 40]->OpenRoute("east:a" + std::to_string(i), "west:b").status();
    }));
  }
  if (at_once) {
    while (rig.cluster.calls("ImportMemory") < kMany) std::this_thread::yield();
    rig.cluster.ReleaseCalls();
  }
  size_t made = 0;
  for (std::future<Status>& one : opened) {
    const Status status = one.get();
    made += status.ok() ? 1 : 0;
    CHECK((status.ok() || status.reason() == reasons::kQuota));
  }
  CHECK(made == kMany - 1);
  RingOf ring(rig.cluster["west"], carol.in_west);
  REQUIRE_OK(ring.OpenRoute("east:a", "west:c"));
  CHECK(rig.Copy(Request("east:a64", "west:b")).receipt.path == "peer-direct");
}
