// What a source that lies can do to the node that reads from it.
#include <atomic>
#include <limits>

#include "daemon/pipeline/message.h"
#include "onecopy/reasons.h"
#include "tests/support/engine_cluster.h"
#include "tests/support/fake_rdma.h"

using namespace onecopy;
using namespace onecopy::engine;
using namespace onecopy::testing;

TEST_CASE("slots of a size that the reader did not ask for are refused, whatever is read into") {
  const auto control = std::make_shared<FakeNics>();
  EngineCluster cluster({"east", "west"}, [&](const std::string& name, NodePlan& plan) {
    plan.links.push_back(MakeFakeRdma(MakeTcpLink(name), 1,
                                      name == "east" ? control : std::make_shared<FakeNics>()));
  });
  // Which path comes first is not to depend on what a probe of the fake link finds.
  cluster.FailCalls("OpenProbe");
  const Principal alice = cluster["east"].Attach();
  const Principal bob = cluster["west"].Attach();
  REQUIRE_OK(cluster["east"].Register(alice, "a", 300'000));
  REQUIRE_OK(cluster["west"].Register(bob, "b", 300'000));
  const uint64_t slot_bytes =
      GENERATE(uint64_t{0}, uint64_t{1}, uint64_t{1} << 40, std::numeric_limits<uint64_t>::max());
  CAPTURE(slot_bytes);
  const auto staged = std::make_shared<std::atomic<size_t>>(0);
  control->Set([&](FakeNics::Hooks& hooks) {
    hooks.on_send = [slot_bytes, staged](std::string& text) {
      auto message = pipeline::Decode(std::as_bytes(std::span(text)));
      auto* ready = message ? std::get_if<pipeline::ReadyMessage>(&*message) : nullptr;
      if (ready == nullptr || ready->slot_bytes == 0) return;  // read in place
      ++*staged;
      ready->slot_bytes = slot_bytes;
      text = pipeline::Encode(*message);
    };
  });
  // Staged at both ends, and at the source alone: then no slots here bound what it says.
  for (const char* path : {"rdma-staged", "rdma-bounce"}) {
    CAPTURE(path);
    TransferRequest request = Request("east:a", "west:b");
    request.policy.path_glob = path;
    const size_t before = *staged;
    const auto copied = cluster["west"].Copy(bob, request);
    REQUIRE_OK(copied);
    if (path == std::string("rdma-staged")) REQUIRE(*staged > before);
    if (*staged == before) continue;
    CHECK(copied->state == TransferState::kFailed);
    CHECK(copied->error.message().find("slots of " + std::to_string(slot_bytes)) !=
          std::string::npos);
  }
  control->Set([](FakeNics::Hooks& hooks) { hooks.on_send = nullptr; });
  const auto honest = cluster["west"].Copy(bob, Request("east:a", "west:b"));
  REQUIRE_OK(honest);
  CHECK(honest->state == TransferState::kSucceeded);
}
