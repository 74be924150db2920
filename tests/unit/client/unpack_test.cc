// A folder that goes into a buffer, and comes back out of it.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <string>
#include <thread>

#include "client/cli/target_folder.h"
#include "tests/support/failing_calls.h"
#include "tests/unit/client/program_fixture.h"

namespace unpack_test {
using onecopy::cli::TargetFolder;
using onecopy::testing::ContentOf;
using onecopy::testing::Has;
using onecopy::testing::ModeOf;
using onecopy::testing::ProgramFixture;
using onecopy::testing::Run;

namespace fs = std::filesystem;

namespace {

void SetMode(const std::string& path, mode_t mode) { REQUIRE(::chmod(path.c_str(), mode) == 0); }

// Buffer "pack" has a folder: "run" and "none-run", executable, and "read" and "none-read", not;
// "none…" without bytes; "sub/file", and "empty/below", a folder.
struct UnpackFixture : ProgramFixture {
  const mode_t umask_before = ::umask(022);

  UnpackFixture() {
    fs::create_directories(dir / "in/empty/below");
    fs::create_directories(dir / "in/sub");
    for (const char* name : {"run", "read"}) Write(std::string("in/") + name, name);
    for (const char* name : {"none-run", "none-read"}) Write(std::string("in/") + name, "");
    Write("in/sub/file", "in a folder");
    for (const char* name : {"run", "none-run"}) SetMode(dir / ("in/" + std::string(name)), 0755);
    const Run run = (*this)({"cp", dir / "in", "pack", "--create"});
    INFO(run.err);
    REQUIRE(run.exit_status == 0);
  }
  ~UnpackFixture() { ::umask(umask_before); }

  Run Unpack(std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"cp", "pack", dir / "out/"});
    return (*this)(options);
  }

  // In "out", files with the names of those in "in", and the modes of these.
  void WriteOld(mode_t executable, mode_t other) {
    for (const auto& [name, mode] : Modes(executable, other)) {
      Write("out/" + name, "old");
      SetMode(dir / ("out/" + name), mode);
    }
  }
  void CheckModes(mode_t executable, mode_t other) {
    for (const auto& [name, mode] : Modes(executable, other)) {
      INFO(name);
      CHECK(ModeOf(dir / ("out/" + name)) == mode);
    }
  }

 private:
  static std::map<std::string, mode_t> Modes(mode_t executable, mode_t other) {
    return {{"run", executable}, {"none-run", executable}, {"read", other}, {"none-read", other}};
  }
};

}  // namespace

TEST_CASE("a folder comes back with its files, empty folders and executables") {
  UnpackFixture f;
  const Run run = f.Unpack({"--sync"});
  INFO(run.err);
  REQUIRE(run.exit_status == 0);
  CHECK(f.Read("out/run") == "run");
  CHECK(f.Read("out/sub/file") == "in a folder");
  CHECK(fs::is_empty(f.dir / "out/empty/below"));
  f.CheckModes(0755, 0644);
}

TEST_CASE("a file that replaces another one has its mode, and is executable as the index says") {
  UnpackFixture f;
  fs::create_directories(f.dir / "out");
  f.WriteOld(0640, 0771);
  REQUIRE(f.Unpack().exit_status == 0);
  CHECK(f.Read("out/run") == "run");
  CHECK(f.Read("out/none-read").empty());
  f.CheckModes(0750, 0660);
}

TEST_CASE("with --sync the disk has new folders, too") {
  UnpackFixture f;
  REQUIRE(f({"buffer", "rm", "pack"}).exit_status == 0);
  fs::remove_all(f.dir / "in");
  fs::create_directories(f.dir / "in/empty");
  f.Write("in/file", "");
  REQUIRE(f({"cp", f.dir / "in", "pack", "--create"}).exit_status == 0);
  fs::create_directories(f.dir / "out");
  f.Write("out/file", "");
  const auto without_disks = [&](const std::vector<std::string>& options) {
    Run run{};
    std::thread([&] {
      REQUIRE(onecopy::testing::FailCalls(SYS_fsync, EIO));
      run = f.Unpack(options);
    }).join();
    return run;
  };
  CHECK(without_disks({}).exit_status == 0);
  fs::remove(f.dir / "out/empty");
  const Run run = without_disks({"--sync"});
  CHECK(run.exit_status == 1);
  CHECK(Has(run.err, "out/empty"));
  fs::remove_all(f.dir / "out");
  CHECK(Has(without_disks({"--sync"}).err, "syncing to disk: folder \"" + (f.dir / "out\"")));
}

TEST_CASE("no symbolic link leads a file out of its folder") {
  UnpackFixture f;
  fs::create_directories(f.dir / "out");
  fs::create_directories(f.dir / "victim");
  f.Write("victim/file", "precious");
  std::string link;
  SECTION("a folder with a file") { link = "sub"; }
  SECTION("a folder without files") { link = "empty"; }
  SECTION("the target of a file") { link = "run"; }
  SECTION("the target of a file without bytes") { link = "none-read"; }
  const bool folder = link == "sub" || link == "empty";
  fs::create_symlink(f.dir / (folder ? "victim" : "victim/file"), f.dir / ("out/" + link));
  const Run run = f.Unpack();
  CHECK(run.exit_status == 7);
  CHECK(Has(run.err, "is a symbolic link"));
  CHECK(Has(run.err, "out/" + link));
  CHECK(f.Read("victim/file") == "precious");
  CHECK(std::distance(fs::directory_iterator(f.dir / "victim"), {}) == 1);
}

TEST_CASE("a folder that another one takes the place of is still the target") {
  const onecopy::testing::TempFolder dir;
  const auto target = TargetFolder::Make(dir / "out/deep", false);
  REQUIRE_OK(target);
  fs::create_directory(dir / "victim");
  fs::rename(dir / "out/deep", dir / "moved");
  fs::create_directory_symlink(dir / "victim", dir / "out/deep");
  REQUIRE_OK(target->Below("a/b").status());
  CHECK(fs::is_directory(dir / "moved/a/b"));
  CHECK(fs::is_empty(dir / "victim"));
}

TEST_CASE("the folder itself may be named by a link, and by what leads up") {
  const onecopy::testing::TempFolder dir;
  fs::create_directory(dir / "real");
  fs::create_directory_symlink(dir / "real", dir / "link");
  REQUIRE_OK(TargetFolder::Make(dir / "link/new/../other/", true).status());
  CHECK(fs::is_directory(dir / "real/new"));
  CHECK(fs::is_directory(dir / "real/other"));
}
}  // namespace unpack_test
