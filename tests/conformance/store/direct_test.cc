// Past the page cache or through it: what is said is what was done.
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "tests/conformance/store/store_case.h"
#include "tests/support/catch.h"
#include "tests/support/event.h"
#include "transport/store/posix/mounts.h"

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

TEST_CASE("a large file is read both ways by turns, once for its mount, and every byte arrives") {
  StoreCase stores;
  constexpr uint64_t kLong = posix::kLeastToTryWays;
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  const Folder folder(FileSystems().front());
  const std::string path = folder / "sparse";
  WritePattern(path, 4096, 5);
  REQUIRE(::truncate(path.c_str(), kLong) == 0);
  auto file = stores.Open(path, FileUse::kRead, true);
  REQUIRE_OK(file);
  if ((*file)->grain() == 1) ONECOPY_SKIP("O_DIRECT is not used on the file system of " + path);
  const RegionRef region = Pages(kLong);
  // Before, it is only known that some will go the longer way.
  CHECK((*file)->PassOf({0, kLong}, region->address()) == FilePass::kPageCache);
  CHECK((*file)->how().find("measured") != std::string::npos);
  Fill({region, 0, kLong}, 3);
  std::array<std::atomic<uint64_t>, 3> passes{};
  std::atomic<uint64_t> left = kLong / kPiece;
  std::atomic<bool> failed = false;
  Event all;
  for (uint64_t at = 0; at < kLong; at += kPiece) {
    (*file)->Read(at, {region, at, kPiece}, [&](const Status& status, FilePass pass) {
      if (!status.ok()) failed = true;
      passes[static_cast<size_t>(pass)] += kPiece;
      if (--left == 0) all.Set();
    });
  }
  all.Wait();
  CHECK_FALSE(failed);
  CHECK(FirstWrong({region, 0, 4096}, 5) == 4096);
  const auto* const begin = region->address();
  CHECK(
      std::all_of(begin + 4096, begin + kLong, [](std::byte one) { return one == std::byte(0); }));
  CHECK(passes[static_cast<size_t>(FilePass::kDirect)] >=
        posix::Trial::kPairs * posix::Trial::kSegmentBytes);
  CHECK(passes[static_cast<size_t>(FilePass::kPageCache)] >=
        posix::Trial::kPairs * posix::Trial::kSegmentBytes);

  // From then on it is known.
  const auto known = stores.store().Describe().attributes;
  CHECK(std::any_of(known.begin(), known.end(), [](const auto& one) {
    return one.first.starts_with("mount ") && one.second.find("measured") != std::string::npos;
  }));
  WritePattern(folder / "next", kBytes, 1);
  auto next = stores.Open(folder / "next", FileUse::kRead, true);
  REQUIRE_OK(next);
  CHECK((*next)->how().find("while it was read") == std::string::npos);
  // Whoever counts copies gets the fewest, whatever was faster.
  os::UniqueFd plain(::open((folder / "next").c_str(), O_RDONLY | O_CLOEXEC));
  os::UniqueFd direct(::open((folder / "next").c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  OpenFileRequest request;
  request.fd = plain.get();
  request.direct_fd = direct.get();
  request.name = "next";
  request.fewest_copies = true;
  auto counted = stores.Open(std::move(request));
  REQUIRE_OK(counted);
  CHECK((*counted)->PassOf({0, kBytes}, region->address()) == FilePass::kDirect);
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
