// What is zero in a new file.
#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "tests/conformance/store/store_case.h"
#include "tests/support/catch.h"

namespace holes_test {
namespace {

using namespace onecopy::testing;
using namespace onecopy;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kBytes = 4 * kMiB;

uint64_t RoomOf(int fd) {
  struct stat facts {};
  REQUIRE(::fstat(fd, &facts) == 0);
  return static_cast<uint64_t>(facts.st_blocks) * 512;
}

}  // namespace

TEST_CASE("what is zero for long in a new file stays a hole, and gives its room back") {
  StoreCase stores;
  for (const std::string& below : FileSystems()) {
    const Folder folder(below);
    for (const bool direct : {false, true}) {
      INFO(below << (direct ? ", O_DIRECT" : ""));
      const std::string path = folder / "out";
      const os::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
      REQUIRE(::ftruncate(fd.get(), kBytes) == 0);
      REQUIRE(::fallocate(fd.get(), 0, 0, kBytes) == 0);
      REQUIRE(RoomOf(fd.get()) >= kBytes);
      const os::UniqueFd past(direct ? ::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC) : -1);
      OpenFileRequest request;
      request.fd = fd.get();
      request.direct_fd = past ? past.get() : -1;
      request.name = path;
      request.use = FileUse::kWrite;
      request.is_new = true;
      request.bytes = kBytes;
      auto file = stores.Open(std::move(request));
      REQUIRE_OK(file);
      // Something at the beginning, in the middle beside no block's border, and at the end.
      const RegionRef region = Pages(kBytes);
      std::fill_n(region->address(), kBytes, std::byte{0});
      for (const uint64_t at : {uint64_t{0}, kMiB + 4000, kBytes - 300}) {
        Fill({region, at, 300}, 7);
      }
      for (uint64_t at = 0; at < kBytes; at += kMiB) {
        REQUIRE_OK(Write(**file, at, {region, at, kMiB}).status);
      }
      CHECK((*file)->how().find("as holes") != std::string::npos);
      CHECK(RoomOf(fd.get()) <= kBytes / 4);
      std::vector<std::byte> found(kBytes);
      REQUIRE(::pread(fd.get(), found.data(), kBytes, 0) == static_cast<ssize_t>(kBytes));
      CHECK(std::equal(found.begin(), found.end(), region->address()));
      // Beyond its length nothing is known, so that all is written.
      REQUIRE_OK(Write(**file, kBytes, {region, 2 * kMiB, kMiB}).status);
      struct stat facts {};
      REQUIRE(::fstat(fd.get(), &facts) == 0);
      CHECK(static_cast<uint64_t>(facts.st_size) == kBytes + kMiB);
    }
  }
}

}  // namespace holes_test
