// Configuration files that are wrong, and flags.
#include "tests/support/catch.h"
#include "tests/support/node.h"

using onecopy::testing::RunCommand;
using onecopy::testing::TempFolder;
using onecopy::testing::WriteFile;

TEST_CASE("the default configuration is a right configuration") {
  const auto printed = RunCommand("onecopyd", {"config", "default"});
  REQUIRE(printed.exit_status == 0);
  const TempFolder folder;
  WriteFile(folder / "config.toml", printed.out);
  const auto checked = RunCommand("onecopyd", {"config", "check", folder / "config.toml"});
  CHECK(checked.exit_status == 0);
  CHECK(checked.err == "");
}
