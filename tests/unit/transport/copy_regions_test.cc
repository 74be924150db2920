// Copies between memories of which a part is gone, or was never there.
#include "transport/os/memory/copy_regions.h"

#include "tests/support/catch.h"
#include "tests/support/memory.h"
#include "tests/support/torn_memory.h"

using namespace onecopy;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kBytes = 64 * 4096;
constexpr uint64_t kKept = 4 * 4096;

Status Copy(const RegionRef& from, const RegionRef& to, const StridedCopy& copy) {
  return os::CopyRegions(*from, *to, {&copy, 1});
}

// Of which some has no memory, and which tells what was read through it.
class HoleyBacking final : public Backing {
 public:
  explicit HoleyBacking(uint64_t* read) : read_(*read) {}
  bool IsFull() const override { return false; }
  bool HasHoles(uint64_t offset, uint64_t bytes) const override { return offset + bytes > kKept; }
  Status Read(uint64_t, std::byte* to, uint64_t bytes) const override {
    std::memset(to, 0, bytes);
    read_ += bytes;
    return OkStatus();
  }
  Status Cover() override { return OkStatus(); }

 private:
  uint64_t& read_;
};

}  // namespace

TEST_CASE("a copy out of memory that has gone fails, and so does every later one") {
  const RegionRef torn = TornRegion(kBytes, kKept);
  const RegionRef to = HostRegion(kBytes);
  REQUIRE_OK(Copy(torn, to, {.from = 0, .to = 0, .bytes = kKept}));
  CHECK(to->address()[kKept - 1] == std::byte('x'));
  CHECK(Copy(torn, to, {.from = 0, .to = 0, .bytes = kBytes}).reason() == "MEMORY_FAULT");
  CHECK(Copy(torn, to, {.from = 0, .to = 0, .bytes = 1}).reason() == "MEMORY_FAULT");
  REQUIRE_OK(Copy(to, HostRegion(kBytes), {.from = 0, .to = 0, .bytes = kBytes}));
}

TEST_CASE("a copy into memory that has gone fails, strided or not") {
  const bool strided = GENERATE(false, true);
  const RegionRef torn = TornRegion(kBytes, kKept);
  const StridedCopy all{.from = 0, .to = 0, .bytes = kBytes};
  const StridedCopy some{
      .from = 0, .to = 0, .bytes = 8, .from_stride = 16, .to_stride = 4096, .count = 64};
  CHECK(Copy(HostRegion(kBytes), torn, strided ? some : all).reason() == "MEMORY_FAULT");
}

TEST_CASE("what has no memory is read without touching it") {
  uint64_t read = 0;
  // Touching the rest would end the test.
  const RegionRef from = TornRegion(kBytes, kKept, false);
  from->SetBacking(std::make_unique<HoleyBacking>(&read));
  const RegionRef to = HostRegion(kBytes);
  std::memset(to->address(), '?', kBytes);
  REQUIRE_OK(Copy(from, to, {.from = 0, .to = 0, .bytes = kKept}));
  CHECK(read == 0);
  REQUIRE_OK(Copy(from, to, {.from = kKept, .to = kKept, .bytes = kBytes - kKept}));
  CHECK(read == kBytes - kKept);
  CHECK(to->address()[kKept - 1] == std::byte('x'));
  CHECK(to->address()[kBytes - 1] == std::byte(0));
  const StridedCopy strided{
      .from = 0, .to = 0, .bytes = 8, .from_stride = 4096, .to_stride = 16, .count = 64};
  REQUIRE_OK(Copy(from, to, strided));
  CHECK(read == kBytes - kKept + 8 * 64);
}
