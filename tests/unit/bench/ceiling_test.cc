// The ceilings move what they say: a ceiling that moved less would make everything look slow.
#include <atomic>

#include "bench/ceiling/peer_copy.h"
#include "bench/ceiling/plain_memcpy.h"
#include "bench/ceiling/plain_sockets.h"
#include "bench/ceiling/together.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"

namespace onecopy::bench {
namespace {

void MovesEverySeed(const Result<std::unique_ptr<Mover>>& made) {
  INFO(made.status().ToString());
  REQUIRE(made.ok());
  Mover& mover = **made;
  for (const uint64_t seed : {1U, 2U}) {
    REQUIRE(mover.Fill(seed).ok());
    const Result<bool> before = mover.Verify(seed);
    REQUIRE(before.ok());
    CHECK_FALSE(*before);
    const Result<Moved> moved = mover.Move();
    INFO(moved.status().ToString());
    REQUIRE(moved.ok());
    CHECK(moved->seconds > 0);
    const Result<bool> after = mover.Verify(seed);
    REQUIRE(after.ok());
    CHECK(*after);
  }
}

TEST_CASE("plain sockets move all bytes, over any number of lanes") {
  for (const unsigned lanes : {1U, 3U}) MovesEverySeed(PlainSockets::Create(3'000'001, lanes));
}

TEST_CASE("more lanes than bytes are no trouble") { MovesEverySeed(PlainSockets::Create(2, 4)); }

TEST_CASE("plain copies move all bytes") { MovesEverySeed(PlainMemcpy::Create(1'000'003, 3)); }

TEST_CASE("stripes cover everything once") {
  for (const uint64_t bytes : {0U, 1U, 7U, 100U}) {
    uint64_t at = 0;
    for (unsigned i = 0; i < 7; ++i) {
      const Stripe stripe = StripeOf(bytes, 7, i);
      CHECK(stripe.begin == at);
      at = stripe.end;
    }
    CHECK(at == bytes);
  }
}

TEST_CASE("jobs that run together have all ended when the time is told") {
  std::atomic<int> ended = 0;
  SecondsTogether({[&] { ++ended; }, [&] { ++ended; }, [&] { ++ended; }});
  CHECK(ended == 3);
}

TEST_CASE("the driver's peer copy moves all bytes, in either kind of memory") {
  const auto api = shim::LoadCuda(testing::FakeCudaPath());
  REQUIRE(api.ok());
  std::vector<std::shared_ptr<Gpu>> gpus;
  for (CUdevice device = 0; device < 2; ++device) {
    const auto uuid = shim::ReadCudaUuid(**api, device);
    REQUIRE(uuid.ok());
    const auto gpu = Gpu::Open(*api, uuid->text);
    REQUIRE(gpu.ok());
    gpus.push_back(*gpu);
  }
  for (const GpuMemoryKind kind : {GpuMemoryKind::kVmm, GpuMemoryKind::kMalloc}) {
    MovesEverySeed(PeerCopy::Create(gpus[0], gpus[1], kind, 3'000'001));
  }
  gpus.clear();
  CHECK(testing::FakeCudaFunction<FakeCudaLeaks>("fakeCudaLeaks")() == 0);
}

TEST_CASE("a GPU that the driver does not show is said so") {
  const auto api = shim::LoadCuda(testing::FakeCudaPath());
  REQUIRE(api.ok());
  CHECK(Gpu::Open(*api, "GPU-none").status().reason() == "DEVICE_NOT_FOUND");
}

}  // namespace
}  // namespace onecopy::bench
