// By which pages devices map what is registered with them, by the rule of the kernel's drivers.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "tests/support/memory.h"
#include "tests/unit/verbs/fake_pair.h"
#include "transport/os/memory/mapping.h"

using namespace onecopy;
using namespace onecopy::testing;

namespace {

constexpr uint64_t kHuge = uint64_t{2} << 20;
constexpr uint64_t kGiant = uint64_t{1} << 30;

// Memory of a GPU that lies at `address` in its own address space, in pages of `page` bytes that
// are anywhere on the bus, and whose dma-buf begins at the small page below it.
RegionRef GpuMemory(uint64_t address, uint64_t bytes, uint64_t page) {
  const uint64_t in_page = address % 4096;
  const auto memory = os::SealedMemfd("gpu", in_page + bytes);
  REQUIRE_OK(memory);
  const int fd = ::dup(memory->get());
  struct stat status {};
  REQUIRE(::fstat(fd, &status) == 0);
  std::vector<fake_verbs::Segment> segments;
  for (uint64_t at = address - in_page; at < address + bytes;) {
    const uint64_t end = std::min((at / page + 1) * page, (address + bytes + 4095) / 4096 * 4096);
    // Every other page of the bus, in reverse: no two of them are neighbours there.
    segments.push_back({(uint64_t{1} << 45) - 2 * (at / page) * page + at % page, end - at});
    at = end;
  }
  FakeVerbs().LiesAt(status.st_ino, segments);
  auto region =
      std::make_shared<Region>(Place{"cuda", "GPU-1"}, reinterpret_cast<std::byte*>(address), bytes,
                               false, [fd] { ::close(fd); });
  region->SetDmaBufExporter([fd, in_page, address]() -> Result<DmaBuf> {
    return DmaBuf{::dup(fd), in_page, address};
  });
  return region;
}

// What the owner's device made of it when it was lent to a peer.
fake_verbs::Registration Leased(const RegionRef& region) {
  FakePair pair;
  auto connected = Connect(pair);
  REQUIRE_OK(connected);
  const auto key = connected->Export({region, 0, region->bytes()});
  REQUIRE_OK(key);
  for (const auto& made : FakeVerbs().Registrations()) {
    if ((made.access & IBV_ACCESS_REMOTE_READ) != 0) return made;
  }
  FAIL("nothing was lent");
  return {};
}

}  // namespace

TEST_CASE("memory of a GPU that is lent keeps its large pages") {
  PlantTwo();
  const auto [address, bytes, page, expected] =
      GENERATE(table<uint64_t, uint64_t, uint64_t, uint64_t>({
          {0x7f00'0000'0000, 64 * kHuge, kHuge, kHuge},
          {0x7f00'0000'0000 + 5 * kHuge, 3 * kHuge, kHuge, kHuge},
          // Within an allocation, and not at a page's beginning.
          {0x7f00'0000'0000 + 12345 * 16, 8 * kHuge, kHuge, kHuge},
          {0x7f00'0000'0000 + 4096, 9 * kHuge, kHuge, kHuge},
          // Less than a large page: as large as it can fill.
          {0x7f00'0000'0000, kHuge / 2, kHuge, kHuge / 2},
          // Pages of 64 KiB: no larger than they are.
          {0x7f00'0000'0000, 8 * kHuge, 65536, 65536},
          {0x7f00'0001'0000, 8 * kHuge, 4096, 4096},
      }));
  CAPTURE(address, bytes, page);
  const auto lent = Leased(GpuMemory(address, bytes, page));
  CHECK(lent.dma_buf);
  CHECK(lent.page_bytes >= expected);
  CHECK(lent.page_bytes < 2 * std::max(expected, lent.bytes));
}

TEST_CASE("host memory in huge pages that is lent keeps them, up to a gigabyte") {
  FakeVerbs().Reset();
  for (const char* name : {"o0", "r0"}) {
    fake_verbs::PlantedDevice device;
    device.name = name;
    device.windows = false;
    device.ports = {InfiniBandPort(name[0] == 'o' ? 1 : 2)};
    FakeVerbs().Plant(device);
  }
  const uint64_t page = GENERATE(kHuge, kGiant);
  const uint64_t bytes = 2 * page;
  // Addresses only: nothing is ever read.
  void* const reserved =
      ::mmap(nullptr, bytes + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(reserved != MAP_FAILED);
  const uint64_t first = (reinterpret_cast<uint64_t>(reserved) + page - 1) / page * page;
  FakeVerbs().LiesAt(first, {{5 * kGiant, page}, {9 * kGiant, page}});
  {
    const RegionRef region = std::make_shared<Region>(
        Place{"host", {}}, reinterpret_cast<std::byte*>(first), bytes, true, [] {});
    CHECK(Leased(region).page_bytes == page);
  }
  ::munmap(reserved, bytes + page);
}

TEST_CASE("where lent memory lies is not to be guessed") {
  PlantTwo();
  const RegionRef region = GpuMemory(0x7f00'0000'0000, 4 * kHuge, kHuge);
  FakePair pair;
  auto connected = Connect(pair);
  REQUIRE_OK(connected);
  std::vector<uint64_t> bases;
  for (int i = 0; i < 8; ++i) {
    const auto key = connected->Export({region, 0, region->bytes()});
    REQUIRE_OK(key);
    RevokeAndWait(*connected->owner, *key);
    pair.owner->EndLeases(region);
    while (true) {  // until the lease has ended, so that the next one is another
      const auto made = FakeVerbs().Registrations();
      const auto again = connected->Export({region, 0, region->bytes()});
      REQUIRE_OK(again);
      RevokeAndWait(*connected->owner, *again);
      if (FakeVerbs().Registrations().size() > made.size()) break;
    }
  }
  for (const auto& made : FakeVerbs().Registrations()) {
    if ((made.access & IBV_ACCESS_REMOTE_READ) == 0) continue;
    CHECK(made.base % (4 * kHuge) == 0);  // as the memory lies
    CHECK(made.base < uint64_t{1} << 62);
    bases.push_back(made.base);
  }
  REQUIRE(bases.size() >= 8);
  // Each of the bits above is 1 in some and 0 in others; that it is not has one chance in 100 for
  // all bits together, so several rounds are looked at.
  uint64_t ones = 0;
  uint64_t zeros = 0;
  for (const uint64_t base : bases) {
    ones |= base;
    zeros |= ~base;
  }
  const uint64_t random = (uint64_t{1} << 62) - 4 * kHuge;
  CHECK(__builtin_popcountll(ones & random) > 30);
  CHECK(__builtin_popcountll(zeros & random) > 30);
  std::sort(bases.begin(), bases.end());
  CHECK(std::adjacent_find(bases.begin(), bases.end()) == bases.end());
}

TEST_CASE("a driver that refuses relaxed ordering for dma-bufs registers them without it") {
  FakeVerbs().Reset();
  for (const char* name : {"o0", "r0"}) {
    fake_verbs::PlantedDevice device;
    device.name = name;
    device.refuses = IBV_ACCESS_RELAXED_ORDERING;
    device.ports = {InfiniBandPort(name[0] == 'o' ? 1 : 2)};
    FakeVerbs().Plant(device);
  }
  const auto lent = Leased(GpuMemory(0x7f00'0000'0000, kHuge, kHuge));
  CHECK(lent.dma_buf);
  CHECK((lent.access & IBV_ACCESS_RELAXED_ORDERING) == 0);
}
