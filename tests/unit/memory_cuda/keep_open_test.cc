// Contexts that stay open for a while after their last use.
#include <chrono>
#include <thread>
#include <vector>

#include "onecopy/reasons.h"
#include "tests/unit/memory_cuda/rig.h"

namespace onecopy::cuda {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr uint64_t kHostBytes = 10'000;

Gpu::Options KeptOpen(milliseconds time) {
  Gpu::Options options;
  options.keep_open = time;
  return options;
}

void CountOpenings(Rig& rig) {
  rig.api->DevicePrimaryCtxRetain = [](CUcontext* context, CUdevice device) {
    ++opened;
    return fake->DevicePrimaryCtxRetain(context, device);
  };
  rig.CountPins();
}

void CopyFrom(const RegionRef& host, Rig& rig) {
  const RegionRef region = rig.Allocate(0, host->bytes());
  auto route = rig.memory().Prepare(host, region);
  REQUIRE_OK(route);
  REQUIRE_OK(CopyNow(**route, 0, 0, host->bytes()).status);
}

TEST_CASE("the next transfer finds context and pins open") {
  Rig rig(KeptOpen(hours{1}));
  CountOpenings(rig);
  const RegionRef host = HostRegion(Pattern(kHostBytes, 3));
  for (int i = 0; i < 3; ++i) {
    CopyFrom(host, rig);
    CHECK(rig.ContextIsOpen(0));
  }
  CHECK(opened == 1);
  CHECK(pinned == 1);
  CHECK(unpinned == 0);
}

TEST_CASE("a device that is released closes at once, and opens again") {
  Rig rig(KeptOpen(hours{1}));
  CountOpenings(rig);
  const RegionRef host = HostRegion(Pattern(kHostBytes, 4));
  CopyFrom(host, rig);
  REQUIRE_OK(rig.memory().CloseDevice(rig.device(0)));
  CHECK_FALSE(rig.ContextIsOpen(0));
  CHECK(unpinned == 1);
  CopyFrom(host, rig);
  CHECK(opened == 2);
  CHECK(pinned == 2);
  const RegionRef region = rig.Allocate(0, kHostBytes);
  CHECK(rig.memory().CloseDevice(rig.device(0)).reason() == reasons::kDeviceInUse);
  CHECK(rig.ContextIsOpen(0));
}

TEST_CASE("a host region that goes is unpinned in a context that is only kept open") {
  Rig rig(KeptOpen(hours{1}));
  CountOpenings(rig);
  CopyFrom(HostRegion(Pattern(kHostBytes, 5)), rig);
  CHECK(unpinned == 1);
  CHECK(rig.ContextIsOpen(0));
}

TEST_CASE("a context closes by itself when its time is over") {
  Rig rig(KeptOpen(milliseconds{1}));
  CountOpenings(rig);
  const RegionRef host = HostRegion(Pattern(kHostBytes, 6));
  CopyFrom(host, rig);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (rig.ContextIsOpen(0) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  CHECK_FALSE(rig.ContextIsOpen(0));
  CHECK(opened == 1);
  CHECK(unpinned == 1);
}

TEST_CASE("a GPU that nobody uses is not kept open by another one's transfers") {
  Rig rig(KeptOpen(hours{1}));
  CountOpenings(rig);
  const RegionRef host = HostRegion(Pattern(kHostBytes, 10));
  CopyFrom(host, rig);
  const RegionRef other = rig.Allocate(1, kHostBytes);
  auto route = rig.memory().Prepare(host, other);
  REQUIRE_OK(route);
  CHECK(pinned == 2);
  CHECK(unpinned == 1);
  REQUIRE_OK(rig.memory().CloseDevice(rig.device(0)));
  CHECK_FALSE(rig.ContextIsOpen(0));
  REQUIRE_OK(CopyNow(**route, 0, 0, kHostBytes).status);
  CHECK(ReadAll(rig.memory(), other) == Pattern(kHostBytes, 10));
}

TEST_CASE("a route that is dropped at once may find its context closed when the driver is woken") {
  Rig rig(KeptOpen(hours{1}));
  const std::string device = rig.device(0);
  std::atomic<bool> over{false};
  std::thread closer([&] {
    while (!over) static_cast<void>(rig.memory().CloseDevice(device));
  });
  const RegionRef host = HostRegion(Pattern(kHostBytes, 11));
  for (int i = 0; i < 200; ++i) {
    const RegionRef region = rig.Allocate(0, kHostBytes);
    CHECK(rig.memory().Prepare(host, region).ok());
  }
  over = true;
  closer.join();
}

TEST_CASE("a GPU that is lost is not kept open") {
  Rig rig(KeptOpen(hours{1}));
  rig.api->EventQuery = [](CUevent event) {
    const CUresult result = fake->EventQuery(event);  // the copy ends all the same
    return result == CUDA_SUCCESS ? event_result.load() : result;
  };
  RegionRef region = rig.Allocate(0, kHostBytes);
  auto route = rig.memory().Prepare(HostRegion(Pattern(kHostBytes, 7)), region);
  REQUIRE_OK(route);
  event_result = CUDA_ERROR_ILLEGAL_ADDRESS;
  CHECK(CopyNow(**route, 0, 0, kHostBytes).status.reason() == reasons::kGpuLost);
  event_result = CUDA_SUCCESS;
  route->reset();
  region.reset();
  CHECK_FALSE(rig.ContextIsOpen(0));
}

TEST_CASE("contexts that close by time while others are about to use them") {
  Rig rig(KeptOpen(milliseconds{1}));
  const std::vector<RegionRef> hosts = {HostRegion(Pattern(kHostBytes, 8)),
                                        HostRegion(Pattern(kHostBytes, 9))};
  const std::vector<std::string> devices = {rig.device(0), rig.device(1)};
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned round = 0; round < 50; ++round) {
        auto region = rig.memory().Allocate(devices[(t + round) % 2], kHostBytes);
        if (!region.ok()) {
          ++failures;
          continue;
        }
        auto route = rig.memory().Prepare(hosts[t * round % 2], RegionRef(std::move(*region)));
        if (!route.ok() || !CopyNow(**route, 0, 0, kHostBytes).status.ok()) ++failures;
        if (route.ok()) route->reset();
        // Until a context has closed by time, or for a while: so it often closes just now. Without
        // a check of the test's, which are the main thread's.
        unsigned flags = 0;
        int active = 1;
        for (int i = 0; i < 1000 && active != 0; ++i) {
          fake->DevicePrimaryCtxGetState(static_cast<CUdevice>(round % 2), &flags, &active);
          std::this_thread::yield();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
}

}  // namespace
}  // namespace onecopy::cuda
