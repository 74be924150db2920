// Which UCX is taken of those that a machine has: planted folders, nothing is loaded.
#include "transport/shim/find_ucx.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"

namespace find_ucx_test {
namespace {

using onecopy::shim::ChooseUcx;
using onecopy::shim::InstalledUcx;
using onecopy::shim::UcxBuild;

struct Machine {
  onecopy::testing::TempFolder root;

  std::string Plant(const std::string& folder, const std::vector<std::string>& modules) {
    const std::filesystem::path at = std::filesystem::path(root.path()) / folder;
    std::filesystem::create_directories(at / "ucx");
    std::ofstream(at / "libucp.so.0") << "planted";
    for (const std::string& module : modules) {
      std::ofstream(at / "ucx" / ("libuct_" + module + ".so.0")) << "planted";
    }
    return (at / "libucp.so.0").string();
  }
  std::vector<UcxBuild> Builds() const { return InstalledUcx(root.path()); }
  // "" for the system's.
  std::string Choice() const {
    const std::vector<UcxBuild> builds = Builds();
    const UcxBuild* const chosen = ChooseUcx(builds);
    return chosen == nullptr ? "" : chosen->library;
  }
};

}  // namespace

TEST_CASE("without a vendor's UCX the system's is taken, also where there is none") {
  Machine machine;
  CHECK(machine.Builds().empty());
  CHECK(machine.Choice().empty());
  machine.Plant("usr/lib/x86_64-linux-gnu", {"ib", "cma"});
  const auto builds = machine.Builds();
  REQUIRE(builds.size() == 1);
  CHECK(builds[0].verbs);
  CHECK_FALSE(builds[0].cuda);
  CHECK_FALSE(builds[0].vendors);
  CHECK(machine.Choice().empty());
}

TEST_CASE("a vendor's UCX is taken if it reaches more, and of several the one that reaches most") {
  Machine machine;
  machine.Plant("usr/lib/x86_64-linux-gnu", {"ib"});
  machine.Plant("opt/hpcx-v1/ucx/lib", {"ib"});
  CHECK(machine.Choice().empty());
  const std::string both = machine.Plant("opt/hpcx-v2/ucx/lib", {"ib", "cuda"});
  machine.Plant("opt/hpcx-v3/ucx/lib", {"cuda"});
  CHECK(machine.Choice() == both);
  const std::string newer = machine.Plant(
      "opt/nvidia/hpc_sdk/Linux_x86_64/25.1/comm_libs/12.6/hpcx/hpcx-2.21/ucx/lib", {"ib", "cuda"});
  CHECK(machine.Choice() == newer);
  const std::string for_threads =
      machine.Plant("opt/nvidia/hpc_sdk/Linux_x86_64/25.1/comm_libs/12.6/hpcx/hpcx-2.21/ucx/mt/lib",
                    {"ib", "cuda"});
  CHECK(machine.Choice() == for_threads);
}

TEST_CASE("where the distribution's UCX reaches everything it stays") {
  Machine machine;
  machine.Plant("usr/lib64", {"ib", "cuda"});
  machine.Plant("opt/hpcx/ucx/lib", {"ib", "cuda"});
  CHECK(machine.Choice().empty());
}

TEST_CASE("what others can change is not loaded") {
  Machine machine;
  const std::string library = machine.Plant("opt/hpcx/ucx/lib", {"ib", "cuda"});
  CHECK(machine.Choice() == library);
  const std::filesystem::path folder = std::filesystem::path(library).parent_path();
  const std::string changed = std::vector<std::string>{
      library, folder.string(), (folder / "ucx").string()}[GENERATE(0U, 1U, 2U)];
  CAPTURE(changed);
  SECTION("by every user") { REQUIRE(::chmod(changed.c_str(), 0777) == 0); }
  SECTION("by its owner, another user") {
    if (::geteuid() != 0) ONECOPY_SKIP("only root can give files away");
    REQUIRE(::chown(changed.c_str(), 12'345, 12'345) == 0);
  }
  CHECK(machine.Choice().empty());
  const auto builds = machine.Builds();
  REQUIRE(builds.size() == 1);
  CHECK(builds[0].unsafe.find(changed) != std::string::npos);
}

TEST_CASE("a user who says by LD_LIBRARY_PATH where UCX is gets that one") {
  Machine machine;
  machine.Plant("opt/hpcx/ucx/lib", {"ib", "cuda"});
  const std::string mine = machine.Plant("home/me/lib", {});
  const std::string folder = std::filesystem::path(mine).parent_path().string();
  REQUIRE(::setenv("LD_LIBRARY_PATH", ("/nowhere:" + folder).c_str(), 1) == 0);
  CHECK(machine.Choice().empty());
  REQUIRE(::unsetenv("LD_LIBRARY_PATH") == 0);
  CHECK_FALSE(machine.Choice().empty());
}

}  // namespace find_ucx_test
