// What is said of a file's pages, and by whom nothing is.
#include "transport/os/files/page_cache.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "transport/os/base/unique_fd.h"

using namespace onecopy;
using namespace onecopy::testing;

namespace {

constexpr size_t kBytes = 64 << 10;

void Write(const os::UniqueFd& fd) {
  REQUIRE(fd);
  const std::vector<char> bytes(kBytes, 'x');
  REQUIRE(::write(fd.get(), bytes.data(), kBytes) == static_cast<ssize_t>(kBytes));
}

}  // namespace

TEST_CASE("overlayfs says nothing of its pages, rather than that there are none") {
  const TempFolder folder;
  for (const char* name : {"lower", "upper", "work", "merged"}) {
    std::filesystem::create_directory(folder / name);
  }
  os::UniqueFd fd;
  // In a mount namespace of a thread's own, which goes with it; the file stays open.
  std::thread([&] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      return;
    }
    const std::string options = "lowerdir=" + (folder / "lower") +
                                ",upperdir=" + (folder / "upper") + ",workdir=" + (folder / "work");
    const std::string merged = folder / "merged";
    if (::mount("overlay", merged.c_str(), "overlay", 0, options.c_str()) != 0) return;
    fd = os::UniqueFd(::open((merged + "/f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  }).join();
  if (!fd) ONECOPY_SKIP("this process may mount no overlayfs");
  Write(fd);
  CHECK_FALSE(os::CachedPages(fd.get(), 0, kBytes).has_value());
}

TEST_CASE("of a file that was just written all pages are there, where the kernel says") {
  const TempFolder folder;
  const os::UniqueFd fd(::open((folder / "f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  Write(fd);
  const auto pages = os::CachedPages(fd.get(), 0, kBytes);
  if (!pages) ONECOPY_SKIP("the kernel does not say, or this folder is on overlayfs");
  CHECK(*pages == kBytes / static_cast<size_t>(::sysconf(_SC_PAGESIZE)));
}
