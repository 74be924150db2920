// Copies that the requesting thread starts and follows, on several GPUs.
#include <cstring>

#include "tests/unit/memory_cuda/rig.h"

namespace onecopy::cuda {
namespace {

constexpr uint64_t kOneBytes = 1 << 20;

struct Moving {
  RegionRef from;
  RegionRef to;
  std::unique_ptr<SmallCopyRoute> way;
  uint64_t mark = 0;
};

Moving BeginnableOn(Rig& rig, size_t gpu, bool is_long) {
  Moving moving{rig.Allocate(gpu, kOneBytes), rig.Allocate(gpu, kOneBytes), nullptr};
  WriteAll(rig.memory(), moving.from, Pattern(kOneBytes, static_cast<unsigned>(gpu) + 1));
  auto way = is_long ? rig.memory().PrepareLong(moving.from, moving.to)
                     : rig.memory().PrepareSmall(moving.from, moving.to);
  REQUIRE_OK(way);
  moving.way = std::move(*way);
  return moving;
}

void Follow(Moving& moving) {
  Status failure;
  while (!moving.way->Reached(moving.mark, &failure)) std::this_thread::yield();
  REQUIRE_OK(failure);
}

}  // namespace

TEST_CASE("copies of two GPUs are begun by one thread before either of them is marked") {
  const bool is_long = GENERATE(false, true);
  Rig rig;
  Moving one = BeginnableOn(rig, 0, is_long);
  Moving other = BeginnableOn(rig, 1, is_long);
  REQUIRE_OK(one.way->Begin(0, 0, kOneBytes));
  REQUIRE_OK(other.way->Begin(0, 0, kOneBytes));
  one.mark = one.way->Mark();
  other.mark = other.way->Mark();
  Follow(one);
  Follow(other);
  CHECK(ReadAll(rig.memory(), one.to) == Pattern(kOneBytes, 1));
  CHECK(ReadAll(rig.memory(), other.to) == Pattern(kOneBytes, 2));
}

TEST_CASE("long copies between host and GPU let others have their turn each 8 MiB") {
  static std::atomic<int> yields{0};
  static std::atomic<uint64_t> longest{0};
  constexpr uint64_t kLongBytes = (uint64_t{36} << 20) + 100;
  Rig rig;
  rig.api->StreamWaitEvent = [](CUstream stream, CUevent event, unsigned flags) {
    ++yields;
    return fake->StreamWaitEvent(stream, event, flags);
  };
  rig.api->MemcpyHtoDAsync = [](CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
    longest = std::max<uint64_t>(longest, bytes);
    return fake->MemcpyHtoDAsync(to, from, bytes, stream);
  };
  const RegionRef host = HostRegion(Pattern(kLongBytes, 5));
  const RegionRef gpu = rig.Allocate(0, kLongBytes);
  const RegionRef copy = rig.Allocate(0, kLongBytes);
  const RegionRef back = HostRegion(Bytes(kLongBytes));
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
  const auto to_gpu = way(host, gpu);
  yields = 0;
  longest = 0;
  move(*to_gpu, kLongBytes);
  CHECK(yields == 4);
  CHECK(longest == 8 << 20);
  // Short ones as well, by what they make together.
  yields = 0;
  for (int i = 0; i < 32; ++i) move(*to_gpu, 1 << 20);
  CHECK(yields >= 3);
  CHECK(yields <= 5);
  // Within the GPU, none: there it divides its time by itself.
  const auto inside = way(gpu, copy);
  yields = 0;
  move(*inside, kLongBytes);
  CHECK(yields == 0);
  move(*way(copy, back), kLongBytes);
  CHECK(yields == 4);
  CHECK(std::memcmp(back->address(), host->address(), kLongBytes) == 0);
}

}  // namespace onecopy::cuda
