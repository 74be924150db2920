// Host memory that is pinned for copies: once, for as long as it is needed.
#include <thread>

#include "onecopy/reasons.h"
#include "tests/unit/memory_cuda/rig.h"
namespace onecopy::cuda {
namespace {

TEST_CASE("host memory is pinned once, for all GPUs, until it goes") {
  Rig rig;
  rig.CountPins();
  const RegionRef first = rig.Allocate(0, 4096);
  const RegionRef second = rig.Allocate(1, 4096);
  RegionRef host = HostRegion(Pattern(4096, 8));
  for (int round = 0; round < 3; ++round) {
    for (const RegionRef& gpu : {first, second}) {
      auto route = rig.memory().Prepare(host, gpu);
      REQUIRE_OK(route);
      REQUIRE_OK(CopyNow(**route, 0, 0, 4096).status);
    }
  }
  CHECK(pinned == 1);
  CHECK(unpinned == 0);
  host.reset();
  CHECK(unpinned == 1);
}

TEST_CASE("a pin goes with the context that it was made in, and comes back in another") {
  Rig rig;
  rig.CountPins();
  const RegionRef host = HostRegion(Pattern(4096, 9));
  RegionRef first = rig.Allocate(0, 4096);
  REQUIRE_OK(rig.memory().Prepare(host, first));
  const RegionRef second = rig.Allocate(1, 4096);
  {
    // While a route of the other GPU uses the pin, the context that has it stays open.
    auto route = rig.memory().Prepare(host, second);
    REQUIRE_OK(route);
    first.reset();
    CHECK(rig.ContextIsOpen(0));
    REQUIRE_OK(CopyNow(**route, 0, 0, 4096).status);
    CHECK(rig.memory().CloseDevice(rig.device(0)).reason() == reasons::kDeviceInUse);
  }
  CHECK_FALSE(rig.ContextIsOpen(0));
  CHECK(pinned == 1);
  CHECK(unpinned == 1);
  auto route = rig.memory().Prepare(host, second);
  REQUIRE_OK(route);
  REQUIRE_OK(CopyNow(**route, 0, 0, 4096).status);
  CHECK(pinned == 2);
  CHECK(ReadAll(rig.memory(), second) == Pattern(4096, 9));
}

TEST_CASE("pins of many regions survive contexts that open and close under them") {
  Rig rig;
  std::vector<RegionRef> hosts;
  for (unsigned i = 0; i < 4; ++i) hosts.push_back(HostRegion(Pattern(10'000, 100 + i)));
  std::atomic<int> failures{0};
  const std::vector<std::string> devices = {rig.device(0), rig.device(1)};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned round = 0; round < 50; ++round) {
        auto region = rig.memory().Allocate(devices[(t + round) % 2], 10'000);
        if (!region.ok()) {
          ++failures;
          continue;
        }
        auto route = rig.memory().Prepare(hosts[(t * round) % 4], RegionRef(std::move(*region)));
        if (!route.ok() || !CopyNow(**route, 0, 0, 10'000).status.ok()) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == 0);
  CHECK_FALSE(rig.ContextIsOpen(0));
  CHECK_FALSE(rig.ContextIsOpen(1));
}

TEST_CASE("host memory that cannot be pinned is refused, never copied twice") {
  Rig rig;
  const RegionRef region = rig.Allocate(0, 4096);
  for (const CUresult error : {CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_OUT_OF_MEMORY}) {
    static std::atomic<CUresult> given;
    given = error;
    rig.api->MemHostRegister = [](void*, size_t, unsigned) { return given.load(); };
    const Status status = rig.memory().Prepare(HostRegion(Bytes(4096)), region).status();
    CHECK(status.code() == Code::kFailedPrecondition);
    CHECK(status.reason() == reasons::kHostNotPinnable);
    CHECK(status.message().find("CUDA_ERROR_") != std::string::npos);
    CHECK_FALSE(status.remedy().empty());
  }
}

}  // namespace
}  // namespace onecopy::cuda
