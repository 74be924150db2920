// The partial file of a copy that can be continued: who has it, its mode, and what stands in its
// place.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <string>

#include "tests/cluster/cut_copies.h"
#include "transport/os/base/unique_fd.h"

namespace partial_files_test {
namespace {

using namespace onecopy::testing;
namespace fs = std::filesystem;
namespace os = onecopy::os;

mode_t ModeOf(const std::string& path) {
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  return facts.st_mode & 07777;
}

// The locks on a partial file: its client's, and that of whatever writes to it.
constexpr off_t kClaimLock = off_t{1} << 62;
constexpr off_t kFileLock = kClaimLock + 1;

struct flock LockAt(off_t at) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = at;
  lock.l_len = 1;
  return lock;
}

// A partial file that a daemon still has, as it looks to clients.
class Held {
 public:
  explicit Held(const std::string& path) : fd_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    struct flock lock = LockAt(kFileLock);
    REQUIRE(::fcntl(fd_.get(), F_OFD_SETLK, &lock) == 0);
  }
  bool HasClient() const {
    struct flock lock = LockAt(kClaimLock);
    REQUIRE(::fcntl(fd_.get(), F_OFD_GETLK, &lock) == 0);
    return lock.l_type != F_UNLCK;
  }
  void Release() { fd_.Reset(); }

 private:
  os::UniqueFd fd_;
};

}  // namespace

TEST_CASE("a client waits until the daemon has left a partial file, but not for ever") {
  CutCopies f;
  f.Fill();
  WriteFile(f.partial, f.payload.substr(0, 3 * kMiB));
  Held held(f.partial);
  const CommandResult refused = f.east.Run({"cp", "west:b", f.out, "--resume"});
  CheckRefused(refused, 7, "FAILED_PRECONDITION", "FILE_IN_USE");
  CHECK(refused.message().find("the daemon still writes") != std::string::npos);
  auto copying = std::async(std::launch::async, [&f] { return f.Resume(); });
  WaitUntil("a client has the partial file", [&held] { return held.HasClient(); });
  held.Release();
  f.CheckDone(copying.get(), 3 * kMiB);
}

TEST_CASE("a partial file has the mode of a new one, whatever its first attempt replaced") {
  CutCopies f;
  f.Fill();
  WriteFile(f.folder / "new", "");
  WriteFile(f.partial, f.payload.substr(0, kMiB));
  fs::permissions(f.partial, fs::perms(0600));
  f.CheckDone(f.Resume(), kMiB);
  CHECK(ModeOf(f.out) == ModeOf(f.folder / "new"));

  WriteFile(f.partial, f.payload.substr(0, kMiB));
  fs::permissions(f.partial, fs::perms(0644));
  WriteFile(f.out, "secret");
  fs::permissions(f.out, fs::perms(0640));
  CutCopies::Kill(*f.Copying("west:b", f.out, 5 * kMiB, {"resume", "windows"}));
  CHECK(ModeOf(f.partial) == 0600);
  CHECK(f.Resume().at("proven_bytes") >= 4 * kMiB);
  CHECK(ModeOf(f.out) == 0640);
}

TEST_CASE("while a client copies to a partial file, another is refused, and continues after it") {
  CutCopies f;
  f.Fill();
  const auto copying = f.Copying("west:b", f.out, 5 * kMiB, {"resume", "windows"});
  CheckRefused(f.east.Run({"cp", "west:b", f.out, "--resume"}), 7, "FAILED_PRECONDITION",
               "FILE_IN_USE");
  CutCopies::Kill(*copying);
  f.CheckDone(f.Resume(), f.WrittenBytes());
}

TEST_CASE("anything but a partial file of the caller in its place is refused, and stays") {
  CutCopies f;
  f.Fill();
  const auto refused = [&](const std::string& what) {
    INFO(what);
    const CommandResult result = f.east.Run({"cp", "west:b", f.out, "--resume"});
    CheckRefused(result, 2, "INVALID_ARGUMENT", "BAD_ARGUMENT");
    CHECK(result.message().find(what) != std::string::npos);
    CHECK_FALSE(fs::exists(f.out));
    CHECK(fs::symlink_status(f.partial).type() != fs::file_type::not_found);
    fs::remove(f.partial);
  };
  WriteFile(f.folder / "precious", "precious");
  fs::create_symlink(f.folder / "precious", f.partial);
  refused("symbolic link");
  fs::create_hard_link(f.folder / "precious", f.partial);
  refused("another name");
  fs::create_directory(f.partial);
  refused("folder");
  REQUIRE(::mkfifo(f.partial.c_str(), 0600) == 0);
  refused("not a regular file");
  CHECK(ReadFile(f.folder / "precious") == "precious");
  if (::geteuid() != 0) ONECOPY_SKIP("only root may give files away");
  WriteFile(f.partial, f.payload);
  REQUIRE(::chown(f.partial.c_str(), 12'345, 12'345) == 0);
  CheckRefused(f.east.Run({"cp", "west:b", f.out, "--resume"}), 4, "PERMISSION_DENIED",
               "NOT_OWNER");
  CHECK(ReadFile(f.partial) == f.payload);
}

TEST_CASE("a failure leaves a partial file only where it has bytes") {
  CutCopies f;
  f.Fill();
  CHECK(f.east.Run({"cp", "west:b", f.out, "--resume", "--path", "rdma-*"}).exit_status != 0);
  CHECK(fs::is_empty(std::string(f.folder / "")));
  WriteFile(f.partial, f.payload.substr(0, kMiB));
  const CommandResult failed = f.east.Run({"cp", "west:b", f.out, "--resume", "--path", "rdma-*"});
  CHECK(failed.message().find(".out.onecopy-part") != std::string::npos);
  f.CheckDone(f.Resume(), kMiB);
}

TEST_CASE("without --resume a killed client leaves nothing behind, as ever") {
  CutCopies f;
  f.Fill();
  CutCopies::Kill(*f.Copying("west:b", f.out, 5 * kMiB, {"windows"}));
  CHECK(fs::is_empty(std::string(f.folder / "")));
}

}  // namespace partial_files_test
