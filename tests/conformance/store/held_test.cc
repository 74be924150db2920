// Memory of which a store was told that it lives long.
#include "tests/conformance/store/store_case.h"
#include "tests/support/catch.h"
#include "transport/os/memory/mapping.h"

namespace {

using namespace onecopy::testing;
using namespace onecopy;

constexpr uint64_t kHeldBytes = uint64_t{4} << 20;

// Writes the region's bytes to a file, and reads them back there.
void MoveBothWays(StoreCase& stores, const std::string& path, const RegionRef& region,
                  uint64_t seed, std::string& how) {
  WritePattern(path, 0, 0);
  Fill({region, 0, kHeldBytes}, seed);
  {
    auto file = stores.Open(path, FileUse::kWrite, true);
    REQUIRE_OK(file);
    for (uint64_t at = 0; at < kHeldBytes; at += kHeldBytes / 4) {
      REQUIRE_OK(Write(**file, at, {region, at, kHeldBytes / 4}).status);
    }
    how = (*file)->how();
  }
  CHECK(IsPattern(path, kHeldBytes, seed));
  WritePattern(path, kHeldBytes, seed + 1);
  auto file = stores.Open(path, FileUse::kRead, true);
  REQUIRE_OK(file);
  REQUIRE_OK(Read(**file, 0, {region, 0, kHeldBytes}).status);
  CHECK(FirstWrong({region, 0, kHeldBytes}, seed + 1) == kHeldBytes);
}

}  // namespace

TEST_CASE("what goes to and from memory that is held arrives, and is said to be registered") {
  StoreCase stores;
  for (const std::string& below : FileSystems()) {
    INFO(below);
    const Folder folder(below);
    const RegionRef region = Pages(kHeldBytes);
    stores.store().HoldsLong(region);
    std::string how;
    MoveBothWays(stores, folder / "file", region, 1, how);
    INFO(how);
    const bool direct = how.find("O_DIRECT") != std::string::npos;
    const bool registered = RegistersMemory() && direct && !os::LockedMemoryLimit();
    CHECK((how.find("registered memory, O_DIRECT") != std::string::npos) == registered);
    if (registered) CHECK(stores.store().Describe().attributes.contains("registered_memory"));
  }
}

TEST_CASE(
    "memory that is held goes with its last user, and what comes in its place is other memory") {
  StoreCase stores;
  const Folder folder(FileSystems().front());
  std::byte* before = nullptr;
  for (uint64_t round = 1; round <= 3; ++round) {
    INFO(round);
    RegionRef region = Pages(kHeldBytes);
    const std::weak_ptr<Region> gone = region;
    stores.store().HoldsLong(region);
    std::string how;
    MoveBothWays(stores, folder / "file", region, 10 * round, how);
    before = region->address();
    region = nullptr;
    // The file's thread lets go of the last piece.
    auto file = stores.Open(folder / "file", FileUse::kRead);
    REQUIRE_OK(file);
    CHECK(gone.expired());
    // Where it lay there is other memory now, of which nobody was told.
    const RegionRef next = Pages(kHeldBytes, before);
    REQUIRE(next != nullptr);
    MoveBothWays(stores, folder / "file", next, 10 * round + 5, how);
    CHECK(how.find("registered memory") == std::string::npos);
  }
}

TEST_CASE("memory that goes while its store does is let go") {
  std::weak_ptr<Region> gone;
  RegionRef outlives = Pages(kHeldBytes);
  {
    StoreCase stores;
    RegionRef region = Pages(kHeldBytes);
    gone = region;
    stores.store().HoldsLong(region);
    stores.store().HoldsLong(outlives);
    const Folder folder(FileSystems().front());
    std::string how;
    MoveBothWays(stores, folder / "file", region, 1, how);
    MoveBothWays(stores, folder / "file", outlives, 2, how);
  }
  CHECK(gone.expired());
  CHECK(outlives.use_count() == 1);
  outlives = nullptr;  // tells nobody
}
