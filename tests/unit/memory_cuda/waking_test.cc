// What keeps copies from waiting: a driver that has been woken, and room for every mark.
#include <mutex>
#include <vector>

#include "tests/unit/memory_cuda/rig.h"

namespace onecopy::cuda {
namespace {

std::atomic<int> copies{0};
std::atomic<int> synchronised{0};
std::atomic<bool> held{false};

void CountCopies(Rig& rig) {
  copies = 0;
  rig.api->MemcpyDtoDAsync = [](CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    ++copies;
    return fake->MemcpyDtoDAsync(to, from, bytes, stream);
  };
}

TEST_CASE("a route's driver is woken while it is prepared, and nothing of the ends is touched") {
  Rig rig;
  CountCopies(rig);
  const RegionRef from = rig.Allocate(0, 4096);
  const RegionRef to = rig.Allocate(1, 4096);
  WriteAll(rig.memory(), from, Pattern(4096, 1));
  WriteAll(rig.memory(), to, Pattern(4096, 2));
  copies = 0;
  auto route = rig.memory().Prepare(from, to);
  REQUIRE_OK(route);
  REQUIRE_OK(CopyNow(**route, 0, 0, 0).status);  // comes after it
  CHECK(copies == 1);
  CHECK(ReadAll(rig.memory(), from) == Pattern(4096, 1));
  CHECK(ReadAll(rig.memory(), to) == Pattern(4096, 2));
}

TEST_CASE("a route that goes at once leaves nothing under way") {
  Rig rig;
  const RegionRef from = rig.Allocate(0, 4096);
  const RegionRef to = rig.Allocate(1, 4096);
  for (int i = 0; i < 100; ++i) REQUIRE_OK(rig.memory().Prepare(from, to));
}

TEST_CASE("a GPU without room for the waking copies all the same") {
  Rig rig;
  CountCopies(rig);
  rig.api->MemAlloc = [](CUdeviceptr*, size_t) { return CUDA_ERROR_OUT_OF_MEMORY; };
  const RegionRef from = rig.Allocate(0, 4096);
  const RegionRef to = rig.Allocate(1, 4096);
  WriteAll(rig.memory(), from, Pattern(4096, 3));
  copies = 0;
  auto route = rig.memory().Prepare(from, to);
  REQUIRE_OK(route);
  REQUIRE_OK(CopyNow(**route, 0, 0, 4096).status);
  CHECK(copies == 1);
  CHECK(ReadAll(rig.memory(), to) == Pattern(4096, 3));
}

TEST_CASE("any number of small copies may be under way, and none waits for others") {
  Rig rig;
  rig.api->EventQuery = [](CUevent event) {
    return held ? CUDA_ERROR_NOT_READY : fake->EventQuery(event);
  };
  rig.api->StreamSynchronize = [](CUstream stream) {
    ++synchronised;
    return fake->StreamSynchronize(stream);
  };
  constexpr uint64_t kCopies = 1000;
  const RegionRef from = rig.Allocate(0, kCopies);
  const RegionRef to = rig.Allocate(1, kCopies);
  WriteAll(rig.memory(), from, Pattern(kCopies, 4));
  auto made = rig.memory().PrepareShort(from, to);
  REQUIRE_OK(made);
  ShortRoute& route = **made;
  Status failure;
  // Where the events in use begin is not where their room does.
  const auto begin_one = [&](uint64_t at) {
    REQUIRE_OK(route.Begin(at, at, 1));
    return route.Mark();
  };
  for (uint64_t i = 0; i < 100; ++i) {
    const uint64_t mark = begin_one(i);
    while (!route.Reached(mark, &failure)) {
    }
  }
  held = true;
  synchronised = 0;
  std::vector<uint64_t> marks;
  for (uint64_t i = 100; i < kCopies; ++i) marks.push_back(begin_one(i));
  CHECK_FALSE(route.Reached(marks.front(), &failure));
  held = false;
  for (const uint64_t mark : marks) {
    while (!route.Reached(mark, &failure)) {
    }
  }
  REQUIRE_OK(failure);
  CHECK(synchronised == 0);
  CHECK(ReadAll(rig.memory(), to) == Pattern(kCopies, 4));
}

}  // namespace
}  // namespace onecopy::cuda
