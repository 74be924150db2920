// Scattered copies beside another process's kernels, which have the compute engine for a while.
#include <chrono>

#include "tests/unit/memory_cuda/rig.h"

namespace onecopy::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// How long the compute engine is another process's, and since when a kernel waits for it.
std::atomic<int64_t> busy_microseconds{0};
std::atomic<Clock::time_point> launched{};

void MakeBusy(Rig& rig) {
  rig.api->LaunchKernel = [](CUfunction function, unsigned x, unsigned y, unsigned z, unsigned tx,
                             unsigned ty, unsigned tz, unsigned shared, CUstream stream,
                             void** parameters, void** extra) {
    launched = Clock::now();
    return fake->LaunchKernel(function, x, y, z, tx, ty, tz, shared, stream, parameters, extra);
  };
  rig.api->EventQuery = [](CUevent event) {
    const auto until = launched.load() + std::chrono::microseconds(busy_microseconds);
    return Clock::now() < until ? CUDA_ERROR_NOT_READY : fake->EventQuery(event);
  };
}

std::string CopiedBy(CopyRoute& route, uint64_t ranges) {
  std::vector<StridedCopy> copies;
  for (uint64_t i = 0; i < ranges; ++i) copies.push_back({i * 8, i * 8, 4, 0, 0, 1});
  const testing::Outcome outcome = testing::CopyManyNow(route, std::move(copies));
  REQUIRE_OK(outcome.status);
  return outcome.steps->front().by;
}

TEST_CASE("copy engines take over what a kernel would wait longer for") {
  Gpu::Options options;
  options.kernel_wait_lasts = std::chrono::hours(1);
  Rig rig(options);
  MakeBusy(rig);
  const RegionRef from = rig.Allocate(0, 1 << 21);
  const RegionRef to = rig.Allocate(1, 1 << 21);
  auto route = rig.memory().Prepare(from, to);
  REQUIRE_OK(route);
  REQUIRE_OK(testing::CopyNow(**route, 0, 0, 0).status);  // the driver has been woken
  busy_microseconds = 50'000;
  CHECK(CopiedBy(**route, 1000) == "gpu-kernel");   // nobody knew
  CHECK(CopiedBy(**route, 1000) == "copy-engine");  // some 3 ms
  // These would take engines 0.5 s, which is more than it takes to wait on a busy machine, too.
  CHECK(CopiedBy(**route, 200'000) == "gpu-kernel");
}

TEST_CASE("what a kernel has waited is forgotten after a while") {
  Gpu::Options options;
  options.kernel_wait_lasts = std::chrono::milliseconds(0);
  Rig rig(options);
  MakeBusy(rig);
  auto route = rig.memory().Prepare(rig.Allocate(0, 1 << 20), rig.Allocate(1, 1 << 20));
  REQUIRE_OK(route);
  busy_microseconds = 20'000;
  CHECK(CopiedBy(**route, 1000) == "gpu-kernel");
  busy_microseconds = 0;
  CHECK(CopiedBy(**route, 1000) == "gpu-kernel");
}

}  // namespace
}  // namespace onecopy::cuda
