#include "daemon/rundir/run_dir.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

using namespace onecopy;
using onecopy::testing::TempFolder;

namespace {

mode_t ModeOf(const std::string& path) {
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  return facts.st_mode & 07777;
}

// What `body`, which must be cheap, answers in a child that runs as another user.
template <typename Body>
int AsUser(uid_t uid, Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(uid) != 0 || ::setuid(uid) != 0) ::_exit(99);
    ::_exit(body());
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

int CodeOf(const Result<RunDir>& result) { return static_cast<int>(result.status().code()); }

}  // namespace

TEST_CASE("a run directory is made for all to enter, whatever the umask") {
  const TempFolder folder;
  const mode_t before = ::umask(0077);
  const auto claimed = RunDir::Claim(folder / "deep/er/run");
  ::umask(before);
  REQUIRE_OK(claimed);
  CHECK(claimed->path() == folder / "deep/er/run");
  CHECK(ModeOf(claimed->path()) == 0755);
  CHECK(claimed->ApiSocket() == claimed->path() + "/api.sock");
  CHECK(claimed->AttachSocket() == claimed->path() + "/attach.sock");
}

TEST_CASE("paths are absolute and without detours") {
  const TempFolder folder;
  const auto claimed = RunDir::Claim(folder / "./a/../run/");
  REQUIRE_OK(claimed);
  CHECK(claimed->path() == folder / "run");
}

TEST_CASE("a second daemon on the same run directory is refused with the pid of the first") {
  const TempFolder folder;
  {
    const auto first = RunDir::Claim(folder / "run");
    REQUIRE_OK(first);
    const Status refused = RunDir::Claim(folder / "run").status();
    CHECK(refused.code() == Code::kUnavailable);
    CHECK(refused.message().find("pid " + std::to_string(::getpid())) != std::string::npos);
    CHECK(refused.message().find(folder / "run") != std::string::npos);
    CHECK(refused.remedy().find("--run-dir") != std::string::npos);
  }
  REQUIRE_OK(RunDir::Claim(folder / "run"));
}

TEST_CASE("the lock of a daemon that was killed is free, and stale pids are overwritten") {
  const TempFolder folder;
  std::array<int, 2> ready{};
  REQUIRE(::pipe(ready.data()) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto claimed = RunDir::Claim(folder / "run");
    if (claimed.ok()) [[maybe_unused]]
      const ssize_t sent = ::write(ready[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char c = 0;
  REQUIRE(::read(ready[0], &c, 1) == 1);
  ::close(ready[0]);
  ::close(ready[1]);
  const Status refused = RunDir::Claim(folder / "run").status();
  CHECK(refused.message().find("pid " + std::to_string(child)) != std::string::npos);
  ::kill(child, SIGKILL);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  std::ofstream(folder / "run/lock") << "12345678901234567890\n";
  const auto claimed = RunDir::Claim(folder / "run");
  REQUIRE_OK(claimed);
  std::string pid;
  std::ifstream(folder / "run/lock") >> pid;
  CHECK(pid == std::to_string(::getpid()));
}

TEST_CASE("a run directory that cannot be written is refused with the remedy") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root can become another user");
  const TempFolder folder;
  REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
  const std::string path = folder / "run";
  REQUIRE(::mkdir(path.c_str(), 0755) == 0);
  CHECK(AsUser(12345, [&] { return CodeOf(RunDir::Claim(path)); }) ==
        static_cast<int>(Code::kPermissionDenied));
  CHECK(AsUser(12345, [&] {
          return RunDir::Claim(path).status().remedy().find("--run-dir") == std::string::npos;
        }) == 0);
  CHECK(AsUser(12345, [&] { return CodeOf(RunDir::Claim(folder / "new")); }) ==
        static_cast<int>(Code::kPermissionDenied));
}

TEST_CASE("a run directory in which others could replace the sockets is refused") {
  const TempFolder folder;
  const std::string path = folder / "run";
  REQUIRE(::mkdir(path.c_str(), 0755) == 0);
  REQUIRE(::chmod(path.c_str(), 0777) == 0);
  CHECK(RunDir::Claim(path).status().code() == Code::kPermissionDenied);
  REQUIRE(::chmod(path.c_str(), 01777) == 0);
  REQUIRE_OK(RunDir::Claim(path));
  if (::geteuid() != 0) ONECOPY_SKIP("only root can give a folder away");
  REQUIRE(::chmod(path.c_str(), 0755) == 0);
  REQUIRE(::chown(path.c_str(), 12345, 12345) == 0);
  CHECK(RunDir::Claim(path).status().code() == Code::kPermissionDenied);
}

TEST_CASE("a run directory below a folder that others could exchange is refused") {
  const TempFolder folder;
  const std::string path = folder / "shared/run";
  std::filesystem::create_directories(folder / "shared");
  REQUIRE(::chmod((folder / "shared").c_str(), 0777) == 0);
  const Status refused = RunDir::Claim(path).status();
  CHECK(refused.code() == Code::kPermissionDenied);
  CHECK(refused.remedy().find("--run-dir") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(path));
  REQUIRE(::chmod((folder / "shared").c_str(), 01777) == 0);
  REQUIRE_OK(RunDir::Claim(path));
}

TEST_CASE("files and too long paths are no run directories") {
  const TempFolder folder;
  std::ofstream(folder / "file") << "x";
  CHECK(RunDir::Claim(folder / "file").status().code() == Code::kInvalidArgument);
  const std::string deep = folder / std::string(100, 'x');
  const Status refused = RunDir::Claim(deep).status();
  CHECK(refused.code() == Code::kInvalidArgument);
  CHECK(refused.remedy().find("--run-dir") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(deep));
}

TEST_CASE("a lock file that is a link is not followed") {
  const TempFolder folder;
  REQUIRE(::mkdir((folder / "run").c_str(), 0755) == 0);
  std::ofstream(folder / "victim") << "precious";
  std::filesystem::create_symlink(folder / "victim", folder / "run/lock");
  CHECK_FALSE(RunDir::Claim(folder / "run").ok());
  std::string kept;
  std::ifstream(folder / "victim") >> kept;
  CHECK(kept == "precious");
}

TEST_CASE("without /run/onecopy the folder lies in XDG_RUNTIME_DIR") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root can become another user");
  if (std::filesystem::exists("/run/onecopy")) ONECOPY_SKIP("/run/onecopy exists here");
  const TempFolder folder;
  REQUIRE(::chown(folder.path().c_str(), 12345, 12345) == 0);
  CHECK(AsUser(12345, [&] {
          ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
          const auto claimed = RunDir::Claim("");
          return claimed.ok() && claimed->path() == folder / "onecopy" ? 0 : 1;
        }) == 0);
  CHECK(AsUser(12345, [&] {
          ::unsetenv("XDG_RUNTIME_DIR");
          const Status status = RunDir::Claim("").status();
          return status.code() == Code::kPermissionDenied && !status.remedy().empty() ? 0 : 1;
        }) == 0);
}
