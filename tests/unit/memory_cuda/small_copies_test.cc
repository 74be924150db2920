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

}  // namespace onecopy::cuda
