// What keeps copies from waiting: a driver that has been woken, and room for every mark.
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/memory_cuda/rig.h"

namespace onecopy::cuda {
namespace {

std::atomic<int> copies{0};   // apart from those to a GPU
std::atomic<int> inside{0};   // of these, within one GPU
std::atomic<int> inlined{0};  // to a GPU, and short
std::atomic<int> synchronised{0};
std::atomic<bool> held{false};

int OrdinalOf(CUdeviceptr address) {
  int ordinal = -1;
  fake->PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  return ordinal;
}

void CountCopies(Rig& rig) {
  copies = 0;
  inside = 0;
  rig.api->MemcpyDtoDAsync = [](CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    ++copies;
    if (OrdinalOf(to) == OrdinalOf(from)) ++inside;
    return fake->MemcpyDtoDAsync(to, from, bytes, stream);
  };
  rig.api->MemcpyDtoHAsync = [](void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
    ++copies;
    return fake->MemcpyDtoHAsync(to, from, bytes, stream);
  };
  rig.api->MemcpyHtoDAsync = [](CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
    if (bytes < 32 << 10) ++inlined;
    return fake->MemcpyHtoDAsync(to, from, bytes, stream);
  };
}

TEST_CASE("a route's driver is woken while it is prepared, and nothing of the ends is touched") {
  Rig rig;
  CountCopies(rig);
  const RegionRef from = rig.Allocate(0, 4096);
  const RegionRef to = rig.Allocate(1, 4096);
  WriteAll(rig.memory(), from, Pattern(4096, 1));
  WriteAll(rig.memory(), to, Pattern(4096, 2));
  copies = inside = 0;
  auto route = rig.memory().Prepare(from, to);
  REQUIRE_OK(route);
  REQUIRE_OK(CopyNow(**route, 0, 0, 0).status);  // comes after it
  CHECK(copies == 1);
  CHECK(ReadAll(rig.memory(), from) == Pattern(4096, 1));
  CHECK(ReadAll(rig.memory(), to) == Pattern(4096, 2));
}

// Another process's kernels have a GPU's compute engine for milliseconds at a time, and the driver
// uses it for copies within a GPU, and for shorter copies to it, which travel inside the command.
TEST_CASE("no copy but one within a GPU waits for other processes' kernels") {
  Rig rig;
  CountCopies(rig);
  const RegionRef one = rig.Allocate(0, 40'000);
  const RegionRef two = rig.Allocate(1, 40'000);
  for (const uint64_t bytes : {2, 3, 4096, 32'767, 32'768}) {
    INFO(bytes);
    const Bytes content = Pattern(40'000, static_cast<unsigned>(bytes));
    const RegionRef up = HostRegion(content);
    const RegionRef down = HostRegion(Bytes(40'000));
    inside = inlined = 0;
    for (const auto& [from, to] : {std::pair(up, one), std::pair(one, two), std::pair(two, down)}) {
      auto route = rig.memory().Prepare(from, to);
      REQUIRE_OK(route);
      REQUIRE_OK(CopyNow(**route, 7, 7, bytes).status);
    }
    CHECK(inside == 0);
    CHECK(inlined == 0);
    const Bytes arrived = ReadAll(rig.memory(), down);
    const auto end = static_cast<long>(7 + bytes);
    CHECK(Bytes(arrived.begin() + 7, arrived.begin() + end) ==
          Bytes(content.begin() + 7, content.begin() + end));
    CHECK(arrived[6] == 0);
    CHECK(arrived[7 + bytes] == 0);
  }
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
  Prove(rig.memory(), from, to);
  WriteAll(rig.memory(), from, Pattern(kCopies, 4));
  auto made = rig.memory().PrepareSmall(from, to);
  REQUIRE_OK(made);
  SmallCopyRoute& route = **made;
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

TEST_CASE("a long polled copy is made in pieces, which end as one or not at all") {
  Rig rig;
  constexpr uint64_t kBytes = (uint64_t{130} << 20) + 1;
  const RegionRef from = rig.Allocate(0, kBytes + 3);
  const RegionRef to = rig.Allocate(0, kBytes + 7);
  auto* const source = reinterpret_cast<unsigned char*>(from->address());
  auto* const target = reinterpret_cast<unsigned char*>(to->address());
  for (uint64_t at = 0; at < kBytes + 3; at += 4096)
    source[at] = static_cast<unsigned char>(at >> 12);
  CountCopies(rig);
  auto route = rig.memory().PrepareLong(from, to);
  REQUIRE_OK(route);
  copies = 0;
  Status failure;
  const auto copy = [&] {
    const Status begun = (*route)->Begin(3, 7, kBytes);
    const uint64_t mark = (*route)->Mark();
    while (!(*route)->Reached(mark, &failure)) std::this_thread::yield();
    return begun;
  };
  REQUIRE_OK(copy());
  REQUIRE_OK(failure);
  CHECK(copies == 3);
  CHECK(std::memcmp(source + 3, target + 7, kBytes) == 0);

  // The last piece is refused: what went before it has ended when that is said.
  rig.api->MemcpyDtoDAsync = [](CUdeviceptr, CUdeviceptr, size_t bytes, CUstream) {
    return bytes < uint64_t{64} << 20 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  };
  rig.api->StreamSynchronize = [](CUstream stream) {
    ++synchronised;
    return fake->StreamSynchronize(stream);
  };
  synchronised = 0;
  CHECK_FALSE(copy().ok());
  CHECK(synchronised == 1);
}

}  // namespace
}  // namespace onecopy::cuda
