// Files that cannot be read or written, and disks that are full.
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "tests/cluster/receipts.h"
#include "tests/faults/serving.h"
#include "tests/support/catch.h"
#include "tests/support/failing_calls.h"
#include "transport/os/base/unique_fd.h"

namespace files_test {
namespace {

using namespace onecopy::testing;
using Words = std::vector<std::string>;

constexpr uint64_t kBytes = uint64_t{8} << 20;  // more than a pipe or the small disk holds

struct Holding {
  Node east{"east"};
  Kept kept{east, kBytes};
  TempFolder folder;

  CommandResult Run(Words words, const std::function<void()>& in_child = {}) const {
    words.insert(words.begin(), {"--run-dir", east.run_dir(), "--json"});
    return RunCommand("onecopy", words, {}, in_child);
  }
  size_t Files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder.path()),
                                             std::filesystem::directory_iterator()));
  }
  void Check() const {
    // The windows through which the file went are gone.
    WaitUntil("only what was kept is left", [&] { return east.Do({"buffer", "ls"}).size() == 1; });
    kept.CheckUnchanged();
    CheckServes(east);
  }
};

void BecomeNobody() {
  if (::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(126);
}

}  // namespace

TEST_CASE("a full disk leaves what was there, and nothing half-written") {
  Holding with;
  const std::string disk = with.folder / "disk";
  std::filesystem::create_directory(disk);
  const std::string listing = with.folder / "listing";
  // In a mount namespace of its own, so that it goes with the command. `after` shows what is left.
  const auto on_small_disk = [&](const std::string& shell) {
    return RunCommand("/bin/sh", {"-c", "ls -A " + disk + " > " + listing + "; " + shell}, {},
                      [&disk] {
                        if (::unshare(CLONE_NEWNS) != 0 ||
                            ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
                            ::mount("small", disk.c_str(), "tmpfs", 0, "size=1m") != 0) {
                          ::_exit(126);
                        }
                      });
  };
  if (::geteuid() != 0 || on_small_disk("true").exit_status != 0) {
    ONECOPY_SKIP("only root, where it may mount, can make a small disk");
  }
  const std::string copy = (ProgramFolder() / "onecopy").string() + " --json --run-dir " +
                           with.east.run_dir() + " cp kept " + disk;
  const auto then_list = [&](const std::string& command) {
    return on_small_disk("echo old > " + disk + "/old; " + command + "; status=$?; ls -A " + disk +
                         " > " + listing + "; cat " + disk + "/old >> " + listing +
                         "; exit $status");
  };
  for (const char* file : {"/new", "/old"}) {
    const CommandResult refused = then_list(copy + file);
    CheckRefusedNaming(refused, 9, "RESOURCE_EXHAUSTED", "NO_SPACE", "disk" + std::string(file));
    CHECK(RemedyOf(refused).find("space") != std::string::npos);
    CHECK(ReadFile(listing) == "old\nold\n");
  }
  // Into a pipe to that disk, it is the other program that fails.
  const CommandResult in_place = then_list(copy + "/old@0");
  CheckRefused(in_place, 9, "RESOURCE_EXHAUSTED", "NO_SPACE");
  CHECK(ReadFile(listing) == "old\nold\n");  // found before the first byte
  with.Check();
}

TEST_CASE("a disk that fails under the daemon is told, and what was there stays") {
  struct Failure {
    unsigned call;
    unsigned error;
    const char* code;
    const char* reason;
  };
  const Failure failure =
      GENERATE(values<Failure>({{SYS_pwrite64, EIO, "INTERNAL", "IO_ERROR"},
                                {SYS_pwrite64, ENOSPC, "RESOURCE_EXHAUSTED", "NO_SPACE"},
                                {SYS_pwrite64, EDQUOT, "RESOURCE_EXHAUSTED", "NO_SPACE"},
                                {SYS_pread64, EIO, "INTERNAL", "IO_ERROR"}}));
  CAPTURE(failure.call, failure.error);
  // Below this a loader of programs reads, too.
  constexpr uint32_t kLeast = 64 << 10;
  const Node east("east", {.config = "[posix]\nio = \"threads\"\n", .in_child = [failure] {
                             if (!FailCalls(failure.call, failure.error, kLeast)) ::_exit(126);
                           }});
  const Kept kept(east, kBytes);
  const TempFolder folder;
  for (const char* name : {"old", "source"}) WriteFile(folder / name, Payload(kBytes, 3));
  const bool writes = failure.call == SYS_pwrite64;
  for (const char* name : {"new", "old"}) {
    if (!writes && name == std::string("new")) continue;
    east.Do({"buffer", "create", "b", "--size", std::to_string(kBytes)});
    const CommandResult refused =
        writes ? east.Run({"cp", "kept", folder / name}) : east.Run({"cp", folder / "source", "b"});
    CAPTURE(refused.out);
    CHECK(refused.exit_status != 0);
    CHECK(refused.json.at("error").at("code") == failure.code);
    CHECK(refused.reason() == failure.reason);
    CHECK(refused.message().find(writes ? folder / name : folder / "source") != std::string::npos);
    east.Do({"buffer", "rm", "b"});
  }
  // Nothing of it is left, and files that are not too large for such a disk still go.
  CHECK_FALSE(std::filesystem::exists(folder / "new"));
  for (const char* name : {"old", "source"}) CHECK(ReadFile(folder / name) == Payload(kBytes, 3));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
  east.Do({"cp", "kept@0+1000", folder / "small"});
  kept.CheckUnchanged();
  CheckServes(east);
}

TEST_CASE("a device that is full is named") {
  Holding with;
  const CommandResult refused = with.Run({"cp", "kept", "/dev/full"});
  CheckRefusedNaming(refused, 9, "RESOURCE_EXHAUSTED", "NO_SPACE", "/dev/full");
  CHECK(RemedyOf(refused) != "");
  const CommandResult streamed =
      RunCommand("/bin/sh", {"-c", (ProgramFolder() / "onecopy").string() + " --run-dir " +
                                       with.east.run_dir() + " cp kept - > /dev/full"});
  CHECK(streamed.exit_status == 9);
  CHECK(streamed.err.find("ENOSPC") != std::string::npos);
  // What is printed for people or programs, too.
  CHECK(RunCommand("/bin/sh", {"-c", (ProgramFolder() / "onecopy").string() + " --run-dir " +
                                         with.east.run_dir() + " buffer ls > /dev/full"})
            .exit_status != 0);
  with.Check();
}

TEST_CASE("files that are not there, or no files, are refused by their names") {
  Holding with;
  std::filesystem::create_directory(with.folder / "folder");
  std::filesystem::create_symlink(with.folder / "gone", with.folder / "link");
  const size_t files = with.Files();
  const auto refused = [&](const Words& words, int exit_status, const std::string& code,
                           const std::string& reason, const std::string& names) {
    INFO(words[1] << " to " << words[2]);
    CheckRefusedNaming(with.Run(words), exit_status, code, reason, names);
  };
  const std::string gone = with.folder / "gone";
  const std::string folder = with.folder / "folder";
  refused({"cp", gone, "kept"}, 3, "NOT_FOUND", "FILE_NOT_FOUND", gone);
  refused({"cp", gone + "@0+5", "kept"}, 3, "NOT_FOUND", "FILE_NOT_FOUND", gone);
  refused({"cp", folder, "kept"}, 2, "INVALID_ARGUMENT", "BAD_ENDPOINT", folder);
  refused({"cp", "kept", folder}, 2, "INVALID_ARGUMENT", "BAD_FORMAT", folder);
  refused({"cp", "kept", gone + "/file"}, 3, "NOT_FOUND", "FILE_NOT_FOUND", gone);
  refused({"cp", "kept", gone + "/"}, 2, "INVALID_ARGUMENT", "BAD_FORMAT", gone);
  refused({"cp", "kept", gone + "@5"}, 3, "NOT_FOUND", "FILE_NOT_FOUND", gone);
  refused({"cp", "kept", with.folder / "link"}, 2, "INVALID_ARGUMENT", "BAD_ARGUMENT", "link");
  refused({"cp", with.folder / "link", "kept"}, 3, "NOT_FOUND", "FILE_NOT_FOUND", "link");
  refused({"cp", "east:" + gone, "kept"}, 3, "NOT_FOUND", "FILE_NOT_FOUND", gone);
  refused({"cp", "west:" + gone, "kept"}, 3, "NOT_FOUND", "PEER_NOT_FOUND", "west");
  refused({"cp", "kept", "west:" + gone}, 3, "NOT_FOUND", "PEER_NOT_FOUND", "west");
  CHECK(with.Files() == files);
  with.Check();
}

TEST_CASE("files that may not be read or written are refused by their names") {
  if (::geteuid() != 0) ONECOPY_SKIP("only root can act as another user");
  Holding with;
  for (const auto& path : {with.folder.path(), with.east.folder().path()}) {
    std::filesystem::permissions(path, std::filesystem::perms(0755));
  }
  WriteFile(with.folder / "secret", "secret");
  std::filesystem::permissions(with.folder / "secret", std::filesystem::perms(0600));
  REQUIRE(with.Run({"buffer", "create", "theirs", "--size", "16"}, BecomeNobody).exit_status == 0);
  const auto denied = [&](const Words& words, const std::string& names) {
    const CommandResult refused = with.Run(words, BecomeNobody);
    CheckRefusedNaming(refused, 4, "PERMISSION_DENIED", "ACCESS_DENIED", names);
  };
  denied({"cp", with.folder / "secret", "theirs"}, with.folder / "secret");
  denied({"cp", "theirs", with.folder / "secret"}, with.folder / "secret");
  denied({"cp", "theirs", with.folder / "new"}, with.folder.path().string());
  CHECK(ReadFile(with.folder / "secret") == "secret");
  CHECK(with.Files() == 1);
  REQUIRE(with.Run({"buffer", "rm", "theirs"}, BecomeNobody).exit_status == 0);
  with.Check();
}

TEST_CASE("a reader that leaves ends the copy, and the daemon keeps nothing of it") {
  Holding with;
  const std::string copy =
      (ProgramFolder() / "onecopy").string() + " --run-dir " + with.east.run_dir() + " cp kept -";
  const std::string status = with.folder / "status";
  const CommandResult piped = RunCommand(
      "/bin/sh", {"-c", "{ " + copy + "; echo $? > " + status + "; } | head -c 10 | wc -c"});
  CHECK(piped.out == "10\n");
  CHECK(ReadFile(status) == "141\n");  // as other filters: by SIGPIPE
  // Where that signal is ignored, an error says it.
  const CommandResult ignored = RunCommand(
      "/bin/sh", {"-c", "trap '' PIPE; { " + copy + "; echo $? > " + status + "; } | head -c 10"});
  INFO(ignored.err);
  CHECK(ReadFile(status) == "5\n");
  CHECK(ignored.err.find("standard output") != std::string::npos);
  // And with no standard output at all.
  const CommandResult closed = RunCommand("/bin/sh", {"-c", copy + " >&-"});
  CHECK(closed.exit_status != 0);
  CHECK(closed.err != "");
  with.Check();
}
}  // namespace files_test
