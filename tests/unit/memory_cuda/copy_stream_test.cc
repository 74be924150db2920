// Long copies, from which other streams get their turn.
#include <cstring>
#include <thread>

#include "tests/unit/memory_cuda/rig.h"

namespace onecopy::cuda {
namespace {

constexpr uint64_t kLongBytes = (uint64_t{36} << 20) + 100;

std::atomic<int> yields{0};
std::atomic<uint64_t> longest{0};

// Long regions: two of host memory, two of a GPU, and one of another.
class LongRig {
 public:
  LongRig() {
    rig_.api->StreamWaitEvent = [](CUstream stream, CUevent event, unsigned flags) {
      ++yields;
      return fake->StreamWaitEvent(stream, event, flags);
    };
    rig_.api->MemcpyHtoDAsync = [](CUdeviceptr to, const void* from, size_t bytes,
                                   CUstream stream) {
      longest = std::max<uint64_t>(longest, bytes);
      return fake->MemcpyHtoDAsync(to, from, bytes, stream);
    };
    rig_.api->Memcpy2DAsync = [](const CUDA_MEMCPY2D* rows, CUstream stream) {
      longest = std::max<uint64_t>(longest, rows->WidthInBytes * rows->Height);
      return fake->Memcpy2DAsync(rows, stream);
    };
    gpu = rig_.Allocate(0, kLongBytes);
    other = rig_.Allocate(0, kLongBytes);
    peer = rig_.Allocate(1, kLongBytes);
    yields = 0;
    longest = 0;
  }

  CudaMemory& memory() { return rig_.memory(); }
  bool Arrived() const { return std::memcmp(back->address(), host->address(), kLongBytes) == 0; }

 private:
  Rig rig_;

 public:
  const RegionRef host = HostRegion(Pattern(kLongBytes, 5));
  const RegionRef back = HostRegion(Bytes(kLongBytes));
  RegionRef gpu;
  RegionRef other;
  RegionRef peer;
};

}  // namespace

TEST_CASE("long copies of a ring let others have their turn") {
  LongRig rig;
  const auto way = [&](const RegionRef& from, const RegionRef& to) {
    auto made = rig.memory().PrepareLong(from, to);
    REQUIRE_OK(made);
    return std::move(*made);
  };
  const auto move = [](SmallCopyRoute& by, uint64_t bytes) {
    REQUIRE_OK(by.Begin(0, 0, bytes));
    const uint64_t mark = by.Mark();
    Status failure;
    while (!by.Reached(mark, &failure)) std::this_thread::yield();
    REQUIRE_OK(failure);
  };
  const auto to_gpu = way(rig.host, rig.gpu);
  move(*to_gpu, kLongBytes);
  CHECK(yields == 4);
  CHECK(longest == 8 << 20);
  // Short ones as well, by what they make together.
  yields = 0;
  for (int i = 0; i < 32; ++i) move(*to_gpu, 1 << 20);
  CHECK(yields >= 3);
  CHECK(yields <= 5);
  // Within the GPU, none: there it divides its time by itself.
  const auto inside = way(rig.gpu, rig.other);
  yields = 0;
  move(*inside, kLongBytes);
  CHECK(yields == 0);
  // To another GPU, each 32 MiB.
  Prove(rig.memory(), rig.other, rig.peer);
  yields = 0;
  move(*way(rig.other, rig.peer), kLongBytes);
  CHECK(yields == 1);
  yields = 0;
  move(*way(rig.peer, rig.back), kLongBytes);
  CHECK(yields == 4);
  CHECK(rig.Arrived());
}

TEST_CASE("so do copies that the GPU's thread makes, and those of rows") {
  LongRig rig;
  const auto to_gpu = rig.memory().Prepare(rig.host, rig.gpu);
  const auto from_gpu = rig.memory().Prepare(rig.gpu, rig.back);
  REQUIRE_OK(to_gpu);
  REQUIRE_OK(from_gpu);
  // Bytes that wake the driver come before.
  const auto yielded = [] { return yields == 4 || yields == 5; };
  REQUIRE_OK(CopyNow(**to_gpu, 0, 0, kLongBytes).status);
  CHECK(yielded());
  CHECK(longest == 8 << 20);
  yields = 0;
  REQUIRE_OK(CopyNow(**from_gpu, 0, 0, kLongBytes).status);
  CHECK(yielded());
  CHECK(rig.Arrived());

  // 36 rows of 1,000,000 bytes, eight of which are less than 8 MiB.
  std::memset(rig.back->address(), 0, kLongBytes);
  constexpr uint64_t kRow = 1'000'000;
  yields = 0;
  longest = 0;
  REQUIRE_OK(CopyManyNow(**to_gpu, {{0, 100, kRow, kRow, kRow, 36}}).status);
  CHECK(yielded());
  CHECK(longest == 8 * kRow);
  REQUIRE_OK(CopyManyNow(**from_gpu, {{100, 0, kRow, kRow, kRow, 36}}).status);
  CHECK(std::memcmp(rig.back->address(), rig.host->address(), 36 * kRow) == 0);
}

}  // namespace onecopy::cuda
