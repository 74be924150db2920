#include "client/lib/attach/run_dir.h"

#include <fstream>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace run_dir_test {
using onecopy::client::FindRunDir;
using onecopy::client::RunDirHints;
using onecopy::testing::TempFolder;

namespace {

RunDirHints Hints(const TempFolder& system) {
  RunDirHints hints;
  hints.system_dir = system.path();
  return hints;
}

}  // namespace

TEST_CASE("the run directory is the caller's, then ONECOPY_RUN_DIR's, whether they exist or not") {
  const TempFolder system;
  RunDirHints hints = Hints(system);
  hints.xdg_runtime_dir = "/xdg";
  hints.onecopy_run_dir = "/variable";
  CHECK(FindRunDir(hints).path == "/variable");
  hints.option = "/option";
  CHECK(FindRunDir(hints).path == "/option");
  CHECK(FindRunDir(hints).tried == std::vector<std::string>{"/option"});
}

TEST_CASE("without a choice, the system's run directory counts where it has an attach socket") {
  const TempFolder system;
  RunDirHints hints = Hints(system);
  hints.xdg_runtime_dir = "/xdg";
  CHECK(FindRunDir(hints).path == "/xdg/onecopy");
  CHECK(FindRunDir(hints).tried ==
        std::vector<std::string>{system.path().string(), "/xdg/onecopy"});
  std::ofstream(system / "attach.sock") << "";
  CHECK(FindRunDir(hints).path == system.path().string());
}

TEST_CASE("without XDG_RUNTIME_DIR only the system's run directory is left") {
  const TempFolder system;
  CHECK(FindRunDir(Hints(system)).path == system.path().string());
}

TEST_CASE(
    "an unreachable daemon is named by every folder that was looked at, with how to start one") {
  const onecopy::Status status =
      onecopy::client::Unreachable({"/b", {"/a", "/b"}}, "there is no attach.sock");
  CHECK(status.code() == onecopy::Code::kUnavailable);
  CHECK(status.reason() == onecopy::reasons::kDaemonUnreachable);
  CHECK(status.message() == "no onecopyd answers in /a and /b: there is no attach.sock");
  CHECK(status.remedy().find("onecopyd --run-dir") != std::string::npos);
  CHECK(status.remedy().find("ONECOPY_RUN_DIR") != std::string::npos);
}
}  // namespace run_dir_test
