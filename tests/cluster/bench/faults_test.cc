// The bench is interrupted, its daemons die, its disk is full: it says so, and leaves no daemon.
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/node.h"

namespace onecopy::testing {
namespace {

// The processes whose parent this one is.
std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(parent) + "/task")) {
    std::ifstream file(task.path() / "children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

bool IsRunning(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string word;
  std::string state;
  file >> word >> word >> state;
  return file && state != "Z";
}

// A run that goes on until something ends it, from when its two daemons are there.
class LongRun {
 public:
  LongRun()
      : process_({.program = "onecopy-bench",
                  .arguments = {"run", "--filter", "tcp host to host", "--size", "8MiB",
                                "--samples", "10000", "--json", rows_file()},
                  .error_file = folder_ / "errors"}) {
    WaitUntil("two daemons run", [this] {
      daemons_ = ChildrenOf(process_.pid());
      return daemons_.size() == 2;
    });
  }

  Process& process() { return process_; }
  const std::vector<pid_t>& daemons() const { return daemons_; }
  std::string rows_file() const { return folder_ / "rows.json"; }
  Json OnlyRate() const { return Json::parse(ReadFile(rows_file())).at(0); }

  void CheckNoDaemonLeft() const {
    for (const pid_t daemon : daemons_) {
      WaitUntil("a daemon has ended", [daemon] { return !IsRunning(daemon); });
    }
  }

 private:
  TempFolder folder_;
  Process process_;
  std::vector<pid_t> daemons_;
};

TEST_CASE("a signal ends the run, with rows and without daemons") {
  for (const int signal : {SIGINT, SIGTERM}) {
    INFO("signal " << signal);
    LongRun run;
    run.process().Signal(signal);
    CHECK(run.process().ReadAll().find("tcp host to host") != std::string::npos);
    CHECK(run.process().Wait() == 130);
    run.CheckNoDaemonLeft();
    CHECK(run.OnlyRate().at("reason") == "CANCELLED");
  }
}

TEST_CASE("a signal that comes twice, as timeout sends it, ends the run with rows, too") {
  LongRun run;
  for (int i = 0; i < 20; ++i) {  // two that come together are one for the kernel
    run.process().Signal(SIGTERM);
    std::this_thread::yield();
  }
  CHECK(run.process().ReadAll().find("tcp host to host") != std::string::npos);
  CHECK(run.process().Wait() == 130);
  run.CheckNoDaemonLeft();
}

TEST_CASE("a signal that comes again ends it at once, and its daemons with it") {
  LongRun run;
  REQUIRE(::kill(run.daemons().front(), SIGSTOP) == 0);  // so that no sample ends
  WaitUntil("it has ended", [&] {
    run.process().Signal(SIGINT);
    return !IsRunning(run.process().pid());
  });
  CHECK(run.process().Wait() == 1000 + SIGINT);
  run.CheckNoDaemonLeft();
}

TEST_CASE("a bench that is killed takes its daemons with it") {
  LongRun run;
  run.process().Signal(SIGKILL);
  CHECK(run.process().Wait() == 1000 + SIGKILL);
  run.CheckNoDaemonLeft();
}

TEST_CASE("a daemon that is killed fails its rows, and the other one goes too") {
  for (const size_t which : {size_t{0}, size_t{1}}) {
    INFO("daemon " << which);
    LongRun run;
    REQUIRE(::kill(run.daemons().at(which), SIGKILL) == 0);
    run.process().ReadAll();
    CHECK(run.process().Wait() == 1);
    run.CheckNoDaemonLeft();
    const Json row = run.OnlyRate();
    INFO(row.dump(2));
    CHECK(row.at("status") == "FAILED");
    CHECK(row.at("reason") != "PAYLOAD_WRONG");
    CHECK(row.at("detail") != "");
  }
}

TEST_CASE("rows that cannot be written are an error, after the table was printed") {
  const CommandResult result =
      RunCommand("onecopy-bench", {"run", "--filter", "tcp host to host", "--size", "4KiB",
                                   "--samples", "1", "--json", "/dev/full"});
  CHECK(result.exit_status == 1);
  CHECK(result.err.find("writing /dev/full failed") != std::string::npos);
  CHECK(result.out.find("tcp host to host") != std::string::npos);
}

TEST_CASE("a full disk under TMPDIR is WAIVED with its reason") {
  const TempFolder folder;
  const std::string disk = folder / "disk";
  std::filesystem::create_directory(disk);
  const auto on_small_disk = [&](const std::string& size, const std::string& shell) {
    return RunCommand("/bin/sh", {"-c", shell}, {}, [&disk, &size] {
      if (::unshare(CLONE_NEWNS) != 0 ||
          ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount("small", disk.c_str(), "tmpfs", 0, size.c_str()) != 0) {
        ::_exit(126);
      }
    });
  };
  if (::geteuid() != 0 || on_small_disk("size=64k", "true").exit_status != 0) {
    ONECOPY_SKIP("only root, where it may mount, can make a small disk");
  }
  const std::string rows = folder / "rows.json";
  const std::string bench = "TMPDIR=" + disk + " " + (ProgramFolder() / "onecopy-bench").string() +
                            " run --samples 1 --json " + rows;
  on_small_disk("size=64k", "head -c 60000 /dev/zero > " + disk + "/full; " + bench +
                                " --filter 'tcp host to host' --size 4KiB");
  const Json full = Json::parse(ReadFile(rows)).at(0);
  INFO(full.dump(2));
  CHECK(full.at("status") == "WAIVED");
  CHECK(full.at("reason") == "NO_SPACE");
  const CommandResult checks =
      on_small_disk("size=1m", bench + " --filter 'ceiling check' --size 16MiB");
  INFO(checks.err << checks.out);
  bool seen = false;
  for (const Json& row : Json::parse(ReadFile(rows))) {
    if (row.at("work") != "ceiling check: file reads against fio") continue;
    seen = true;
    CHECK(row.at("status") == "WAIVED");
    // Where that file system cannot be read past the page cache, this comes before.
    CHECK((row.at("reason") == "NO_SPACE" || row.at("reason") == "NOT_APPLICABLE"));
  }
  CHECK(seen);
}

}  // namespace
}  // namespace onecopy::testing
