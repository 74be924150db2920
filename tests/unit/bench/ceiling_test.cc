// The ceilings move what they say: a ceiling that moved less would make everything look slow.
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "bench/ceiling/payload_file.h"
#include "bench/ceiling/peer_copy.h"
#include "bench/ceiling/pinned_copy.h"
#include "bench/ceiling/plain_file.h"
#include "bench/ceiling/plain_io.h"
#include "bench/ceiling/plain_memcpy.h"
#include "bench/ceiling/plain_sockets.h"
#include "bench/ceiling/slower_of.h"
#include "bench/ceiling/together.h"
#include "tests/support/catch.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/temp_folder.h"

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
  for (const unsigned lanes : {1U, 3U})
    MovesEverySeed(PlainSockets::Create({.bytes = 3'000'001, .lanes = lanes}));
}

TEST_CASE("more lanes than bytes are no trouble") {
  for (const bool reused : {false, true}) {
    MovesEverySeed(PlainSockets::Create({.bytes = 2, .lanes = 4, .reused = reused}));
  }
}

TEST_CASE("sockets that use their buffers again move all bytes through them") {
  for (const uint64_t call_bytes : {uint64_t{4096}, uint64_t{1} << 20, uint64_t{4} << 20}) {
    const auto mover = PlainSockets::Create(
        {.bytes = 3'000'001, .lanes = 3, .call_bytes = call_bytes, .reused = true});
    REQUIRE(mover.ok());
    REQUIRE((*mover)->Fill(1).ok());
    const auto moved = (*mover)->Move();
    REQUIRE(moved.ok());
    CHECK(moved->lanes == 3);
    CHECK(moved->loopback);
    CHECK(*moved->cpu_seconds > 0);
    CHECK(*(*mover)->Verify(1));
    REQUIRE((*mover)->Fill(2).ok());
    CHECK_FALSE(*(*mover)->Verify(2));  // another payload than the one that is there
  }
}

// Takes as long, and verifies, as it is told.
class Fixed final : public Mover {
 public:
  Fixed(double seconds, std::optional<double> cpu, bool right)
      : moved_{.seconds = seconds, .lanes = 2, .cpu_seconds = cpu}, right_(right) {}
  Status Fill(uint64_t) override { return OkStatus(); }
  Result<Moved> Move() override { return moved_; }
  Result<bool> Verify(uint64_t) override { return right_; }

 private:
  const Moved moved_;
  const bool right_;
};

TEST_CASE("the slower of several takes as long as the slowest, and is right where all are") {
  for (const bool right : {true, false}) {
    std::vector<SlowerOf::Part> parts;
    parts.push_back({"a", std::make_unique<Fixed>(2, 0.5, true)});
    parts.push_back({"b", std::make_unique<Fixed>(3, std::nullopt, right)});
    SlowerOf both(std::move(parts));
    REQUIRE(both.Fill(1).ok());
    const auto moved = both.Move();
    REQUIRE(moved.ok());
    CHECK(moved->seconds == 3);
    CHECK(moved->lanes == 2);
    CHECK(moved->cpu_seconds == 0.5);
    CHECK(moved->details.at("a_seconds") == 2);
    CHECK(moved->details.at("b_seconds") == 3);
    CHECK(*both.Verify(1) == right);
  }
}

TEST_CASE("files are read past the page cache, and go") {
  const testing::TempFolder folder;
  const std::string path = folder / "file";
  {
    auto file = PlainFile::Create(path, 1 << 20, 1 << 18);
    if (!file.ok() && file.status().reason() == "NOT_APPLICABLE") {
      ONECOPY_SKIP(file.status().message());
    }
    for (const uint64_t seed : {1U, 2U}) {
      REQUIRE((*file)->Fill(seed).ok());
      const auto moved = (*file)->Move();
      REQUIRE(moved.ok());
      CHECK(moved->seconds > 0);
      CHECK(*(*file)->Verify(seed));
      CHECK_FALSE(*(*file)->Verify(seed + 1));
    }
    file->reset();
    CHECK_FALSE(std::filesystem::exists(path));
    REQUIRE(PlainFile::Create(path, 4096, 4096).ok());
  }
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(PlainFile::Create("/nonexistent/file", 4096, 4096)
            .status()
            .message()
            .find("/nonexistent/file") != std::string::npos);
}

TEST_CASE("a payload's file is written, dropped from the page cache, and looked at byte by byte") {
  constexpr uint64_t kBytes = (1 << 20) + 13;
  const testing::TempFolder folder;
  const std::string path = folder / "file";
  auto planned = PayloadFile::Plan(path, kBytes);
  REQUIRE(planned.ok());
  PayloadFile& file = **planned;
  CHECK_FALSE(std::filesystem::exists(path));
  REQUIRE(file.Put(7).ok());
  CHECK(*file.Cached());
  CHECK(*file.Holds(7));
  CHECK_FALSE(*file.Holds(8));
  if (const Status dropped = file.Drop(); dropped.ok()) {
    CHECK(*file.Holds(7));
  } else {
    CHECK(dropped.reason() == "NOT_APPLICABLE");
  }
  // One byte that is wrong, missing or too many is seen.
  REQUIRE(::pwrite(file.fd(), "x", 1, kBytes) == 1);
  CHECK_FALSE(*file.Holds(7));
  REQUIRE(::ftruncate(file.fd(), kBytes - 1) == 0);
  CHECK_FALSE(*file.Holds(7));
  REQUIRE(file.MakeEmpty().ok());
  CHECK(std::filesystem::file_size(path) == kBytes);
  CHECK_FALSE(*file.Holds(7));
  planned->reset();
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(PayloadFile::Plan(path, uint64_t{1} << 60).status().reason() == "NO_SPACE");
  CHECK_FALSE(PayloadFile::Plan("/nonexistent/file", 1).ok());
}

TEST_CASE("plain readers and writers move all bytes, by threads and by a ring") {
  const testing::TempFolder folder;
  for (const bool writes : {false, true}) {
    for (const bool ring : {false, true}) {
      INFO((writes ? "writes" : "reads") << (ring ? " by a ring" : " by threads"));
      PlainIoParams params;
      params.file = folder / "file";
      params.bytes = (3 << 20) + 5;
      params.writes = writes;
      params.direct = params.cold = ring;
      params.ring_depth = ring ? 4 : 0;
      params.threads = 3;
      params.call_bytes = 1 << 18;
      auto plain = PlainIo::Create(params);
      REQUIRE(plain.ok());
      for (const uint64_t seed : {1U, 2U}) {
        REQUIRE((*plain)->Fill(seed).ok());
        const auto moved = (*plain)->Move();
        if (!moved.ok() && moved.status().reason() == "NOT_APPLICABLE") {
          ONECOPY_SKIP(moved.status().message());
        }
        REQUIRE(moved.ok());
        CHECK(moved->seconds > 0);
        CHECK(*moved->cpu_seconds >= 0);
        CHECK(*(*plain)->Verify(seed));
        if (!writes) CHECK_FALSE(*(*plain)->Verify(seed + 1));
      }
    }
  }
}

TEST_CASE("plain copies move all bytes, of little and of much") {
  MovesEverySeed(PlainMemcpy::Create(1'000'003, 3));
  MovesEverySeed(PlainMemcpy::Create(1'000'003, 1, true));
  MovesEverySeed(PlainMemcpy::Create(4099, 3));
}

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

std::vector<std::shared_ptr<Gpu>> TwoGpus() {
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
  return gpus;
}

TEST_CASE("pinned copies move all bytes, either way and both at once") {
  std::vector<std::shared_ptr<Gpu>> gpus = TwoGpus();
  for (const PinnedWay way : {PinnedWay::kToHost, PinnedWay::kFromHost, PinnedWay::kBoth}) {
    MovesEverySeed(PinnedCopy::Create(gpus[0], gpus[1], way, 3'000'001));
  }
  gpus.clear();
  CHECK(testing::FakeCudaFunction<FakeCudaLeaks>("fakeCudaLeaks")() == 0);
}

TEST_CASE("the driver's peer copy moves all bytes, in either kind of memory") {
  std::vector<std::shared_ptr<Gpu>> gpus = TwoGpus();
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
