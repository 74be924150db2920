// Past the page cache or through it: what is said is what was done.
#include <sys/mount.h>
#include <sys/stat.h>

#include "tests/conformance/store/store_case.h"
#include "tests/support/catch.h"

namespace {

using namespace onecopy::testing;
using namespace onecopy;

constexpr uint64_t kBytes = uint64_t{4} << 20;

}  // namespace

TEST_CASE("a file that is not in memory is read directly where its file system does so") {
  StoreCase stores;
  for (const std::string& below : FileSystems()) {
    INFO(below);
    const Folder folder(below);
    WritePattern(folder / "in", kBytes + 10, 1);
    auto file = stores.Open(folder / "in", FileUse::kRead, true);
    REQUIRE_OK(file);
    const RegionRef region = Pages(kBytes + 4096);
    const Moved whole = Read(**file, 0, {region, 0, kBytes});
    REQUIRE_OK(whole.status);
    CHECK(FirstWrong({region, 0, kBytes}, 1) == kBytes);
    if (IsTmpfs(below)) {
      CHECK(whole.pass == FilePass::kMemory);
      continue;
    }
    if ((*file)->grain() == 1) ONECOPY_SKIP("O_DIRECT is not used on the file system of " + below);
    CHECK(whole.pass == FilePass::kDirect);
    CHECK((*file)->PassOf({0, kBytes}, region->address()) == FilePass::kDirect);
    CHECK((*file)->how().find("O_DIRECT") != std::string::npos);
    // What is no whole grains goes the other way, at either end.
    const Moved tail = Read(**file, kBytes, {region, kBytes, 10});
    REQUIRE_OK(tail.status);
    CHECK(tail.pass == FilePass::kPageCache);
    CHECK(Read(**file, 0, {region, 1, 4096}).pass == FilePass::kPageCache);
    CHECK((*file)->PassOf({0, kBytes + 10}, region->address()) == FilePass::kPageCache);
  }
}

TEST_CASE("what is in the page cache is read from there") {
  StoreCase stores;
  const Folder folder(FileSystems().front());
  if (IsTmpfs(FileSystems().front())) ONECOPY_SKIP("there is no folder on a disk");
  WritePattern(folder / "in", kBytes, 1);
  REQUIRE(IsPattern(folder / "in", kBytes, 1));  // now it is
  auto file = stores.Open(folder / "in", FileUse::kRead, true);
  REQUIRE_OK(file);
  const RegionRef region = Pages(kBytes);
  const Moved moved = Read(**file, 0, {region, 0, kBytes});
  REQUIRE_OK(moved.status);
  CHECK(moved.pass == FilePass::kPageCache);
  CHECK(FirstWrong({region, 0, kBytes}, 1) == kBytes);
}

TEST_CASE("without a second descriptor all goes through the page cache") {
  StoreCase stores;
  const Folder folder(FileSystems().front());
  if (IsTmpfs(FileSystems().front())) ONECOPY_SKIP("there is no folder on a disk");
  WritePattern(folder / "in", kBytes, 1);
  auto file = stores.Open(folder / "in", FileUse::kRead);
  REQUIRE_OK(file);
  CHECK((*file)->grain() == 1);
  const RegionRef region = Pages(kBytes);
  CHECK(Read(**file, 0, {region, 0, kBytes}).pass == FilePass::kPageCache);
}

TEST_CASE("files are written with their owner's rights alone") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root can act as another user");
  StoreCase stores;
  constexpr uid_t kOwner = 65533;
  for (const std::string& below : FileSystems()) {
    INFO(below);
    const Folder folder(below);
    const RegionRef region = Pages(4096);
    for (const uid_t owner : {kOwner, uid_t{0}}) {
      INFO("as " << owner);
      const std::string path = folder / std::to_string(owner);
      WritePattern(path, 1, 1);
      REQUIRE(::chmod(path.c_str(), 04755) == 0);
      auto file = stores.Open(path, FileUse::kWrite, false, owner);
      REQUIRE_OK(file);
      REQUIRE_OK(Write(**file, 0, {region, 0, 4096}).status);
      struct stat facts {};
      REQUIRE(::stat(path.c_str(), &facts) == 0);
      // Root may keep it, and nobody else.
      CHECK(((facts.st_mode & S_ISUID) != 0) == (owner == 0));
    }
  }
}

TEST_CASE("a full file system is told") {
  StoreCase stores;
  const Folder folder(FileSystems().front());
  REQUIRE(::mkdir((folder / "small").c_str(), 0755) == 0);
  if (::mount("tmpfs", (folder / "small").c_str(), "tmpfs", 0, "size=1m") != 0) {
    ONECOPY_SKIP("no small file system can be mounted here");
  }
  WritePattern(folder / "small/out", 0, 0);
  Moved moved;
  {
    auto file = stores.Open(folder / "small/out", FileUse::kWrite);
    REQUIRE_OK(file);
    const RegionRef region = Pages(kBytes);
    moved = Write(**file, 0, {region, 0, kBytes});
  }
  REQUIRE(::umount2((folder / "small").c_str(), MNT_DETACH) == 0);
  CHECK(moved.status.code() == Code::kResourceExhausted);
  CHECK(moved.status.reason() == "NO_SPACE");
}
