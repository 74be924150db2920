// Holes of files, and what is left of a copy whose process is killed.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>

#include "tests/cluster/pair.h"
#include "tests/support/catch.h"
#include "transport/os/base/unique_fd.h"

namespace holes_test {
namespace {

using namespace onecopy::testing;
namespace fs = std::filesystem;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kBytes = 64 * kMiB;

uint64_t RoomOf(const std::string& path) {
  struct stat facts {};
  REQUIRE(::stat(path.c_str(), &facts) == 0);
  return static_cast<uint64_t>(facts.st_blocks) * 512;
}

// 64 MiB, of which little is no hole.
void WriteSparse(const std::string& path, const std::string& bytes) {
  const onecopy::os::UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(kBytes)) == 0);
  for (const uint64_t at : {uint64_t{0}, 5 * kMiB + 123, kBytes - bytes.size()}) {
    REQUIRE(::pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(at)) ==
            static_cast<ssize_t>(bytes.size()));
  }
}

}  // namespace

TEST_CASE("holes of a file are holes of its copy, by whatever way it comes back") {
  const TempFolder root;
  const std::string me = std::to_string(::getuid());
  Node west("west", {.config = "[exports.data]\npath = \"" + root.path().string() +
                               "\"\nwrite = \"" + me + "@east\"\n"});
  Node east("east", {.peers = {west.AsPeer()}});
  east.WaitForPeer("west");
  west.WaitForPeer("east");
  const TempFolder folder;
  const std::string sparse = folder / "sparse";
  WriteSparse(sparse, Payload(5000, 1));
  const uint64_t room = RoomOf(sparse);
  REQUIRE(room < kMiB);
  east.Do({"cp", sparse, "here", "--create"});
  east.Do({"cp", sparse, "west:there", "--create"});
  const std::vector<std::vector<std::string>> ways = {
      {"here"},                                         // the daemon
      {"here", "--checksum", "--sync"},                 //
      {"west:there"},                                   // between two nodes
      {"west:there", "--path", "tcp-*", "--checksum"},  // this process, in windows
      {"here", "--path", "local"},                      //
  };
  const std::string all = ReadFile(sparse);
  for (const std::vector<std::string>& way : ways) {
    const std::string path = folder / "copy";
    std::vector<std::string> command = {"cp", way[0], path};
    command.insert(command.end(), way.begin() + 1, way.end());
    const Json done = east.Do(command);
    INFO(done.dump(2));
    CHECK(ReadFile(path) == all);
    CHECK(RoomOf(path) <= room + 64 * 1024);
  }
  const Json exported = east.Do({"cp", "here", "west:" + (root / "copy"), "--checksum"});
  INFO(exported.dump(2));
  CHECK(exported.at("evidence").at("storage").get<std::string>().find("as holes") !=
        std::string::npos);
  CHECK(ReadFile(root / "copy") == all);
  CHECK(RoomOf(root / "copy") <= room + 64 * 1024);
  // What is written in place stays written.
  WriteFile(folder / "full", std::string(kMiB, 'x'));
  east.Do({"cp", "here@6MiB+1MiB", (folder / "full") + "@0"});
  CHECK(ReadFile(folder / "full") == std::string(kMiB, '\0'));
  CHECK(RoomOf(folder / "full") >= kMiB);
}

TEST_CASE("a copy whose process is killed leaves nothing beside the file") {
  Node east("east");
  east.Do({"buffer", "create", "b", "--size", "1GiB"});
  const TempFolder folder;
  WriteFile(folder / "file", "what was there");
  for (const int signal : {SIGKILL, SIGHUP}) {
    Process command({.program = "onecopy",
                     .arguments = {"--run-dir", east.run_dir(), "cp", "b", folder / "file"},
                     .error_file = folder / "err"});
    // Its file is open, whether it has a name or not.
    WaitUntil("it writes", [&] {
      const std::string fds = "/proc/" + std::to_string(command.pid()) + "/fd";
      std::error_code gone;
      for (const auto& entry : fs::directory_iterator(fds, gone)) {
        std::error_code closed;  // since it was listed, as many are while a program starts
        const std::string to = fs::read_symlink(entry.path(), closed).string();
        if (to.starts_with(folder.path().string()) && !to.ends_with("/err")) return true;
      }
      return gone || !fs::exists(fds);
    });
    command.Signal(signal);
    const int status = command.Wait();
    INFO("signal " << signal << ", status " << status << ": " << ReadFile(folder / "err"));
    CHECK((status == 0 || status == (signal == SIGKILL ? 1000 + SIGKILL : 130)));
    const auto names = std::distance(fs::directory_iterator(folder.path()), {});
    CHECK(names == 2);  // the file, and what the command said
    if (status != 0) CHECK(ReadFile(folder / "file") == "what was there");
  }
}

}  // namespace holes_test
