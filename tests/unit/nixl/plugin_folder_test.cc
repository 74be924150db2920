#include "client/nixl/plugin_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/nixl/site.h"

using namespace onecopy;
using namespace onecopy::nixl;
using onecopy::testing::Site;
using onecopy::testing::TempFolder;

namespace {

namespace fs = std::filesystem;

std::string Read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct PluginFolderFixture {
  Site site;
  Site own;  // where onecopy's package is
  TempFolder cache;

  PluginFolderFixture() {
    own.Write("onecopy/nixl/libplugin_ONECOPY.so", "ours");
    own.Write("onecopy.libs/libgrpc.so", "grpc");
  }

  Result<fs::path> Make(const std::string& nixl = {}) const {
    return MakePluginFolder({.packages = site.path(),
                             .nixl = nixl,
                             .plugin = own.path() / "onecopy/nixl/libplugin_ONECOPY.so",
                             .cache = cache.path() / "a" / "b"});
  }
};

}  // namespace

TEST_CASE("the folder for NIXL has its plug-ins and ours, each with its libraries in their place") {
  PluginFolderFixture f;
  f.site.Install("nixl_cu13", "1.5.1");
  const auto folder = f.Make();
  REQUIRE_OK(folder);
  CHECK(Read(*folder / "libplugin_UCX.so") == "ucx");
  CHECK(Read(*folder / "libplugin_ONECOPY.so") == "ours");
  CHECK(Read(*folder / "../libnixl.so") == "core");
  CHECK(Read(*folder / "../../nixl_cu13.libs/libucp.so") == "ucp");
  CHECK(Read(*folder / "../../onecopy.libs/libgrpc.so") == "grpc");

  SECTION("the same again") {
    const auto again = f.Make();
    REQUIRE_OK(again);
    CHECK(*again == *folder);
  }
  SECTION("another one for another version") {
    fs::remove_all(f.site.path() / "nixl_cu13-1.5.1.dist-info");
    f.site.Install("nixl_cu13", "1.5.0");
    const auto other = f.Make();
    REQUIRE_OK(other);
    CHECK(*other != *folder);
    CHECK(fs::exists(*folder));
  }
}

TEST_CASE("where there is no folder for NIXL, the reason says what to do") {
  PluginFolderFixture f;
  SECTION("no NIXL") {
    const auto folder = f.Make();
    CHECK(folder.status().reason() == reasons::kNixlMissing);
    CHECK(folder.status().remedy().find("pip install nixl-cu13") != std::string::npos);
  }
  SECTION("two of them") {
    f.site.Install("nixl_cu12", "1.4.1");
    f.site.Install("nixl_cu13", "1.5.1");
    CHECK(f.Make().status().remedy().find("--nixl") != std::string::npos);
    const auto chosen = f.Make("nixl_cu12");
    REQUIRE_OK(chosen);
    CHECK(chosen->string().find("1.4.1-") != std::string::npos);
    CHECK(f.Make("nixl_cu14").status().reason() == reasons::kNixlMissing);
  }
  SECTION("one that the plug-in would refuse") {
    f.site.Install("nixl_cu13", "0.8.0");
    CHECK(f.Make().status().reason() == reasons::kNixlUnknown);
  }
  SECTION("no plug-in") {
    f.site.Install("nixl_cu13", "1.5.1");
    fs::remove_all(f.own.path() / "onecopy");
    CHECK(f.Make().status().remedy().find("pip install onecopy") != std::string::npos);
  }
  SECTION("a cache that another user could exchange") {
    f.site.Install("nixl_cu13", "1.5.1");
    REQUIRE_OK(f.Make());  // which is there then, as that user may have left it
    REQUIRE(::chmod(f.cache.path().c_str(), 0777) == 0);
    CHECK(f.Make().status().reason() == reasons::kAccessDenied);
    CHECK(f.Make().status().remedy().find("--cache") != std::string::npos);
    REQUIRE(::chmod(f.cache.path().c_str(), 0755) == 0);
    REQUIRE_OK(f.Make());
    if (::geteuid() != 0) ONECOPY_SKIP("only root can give a folder away");
    REQUIRE(::chown((f.cache / "a").c_str(), 4711, 4711) == 0);
    CHECK(f.Make().status().reason() == reasons::kAccessDenied);
    REQUIRE(::chown((f.cache / "a").c_str(), 0, 0) == 0);
    const auto made = f.Make();
    REQUIRE_OK(made);
    REQUIRE(::chown(made->c_str(), 4711, 4711) == 0);
    CHECK(f.Make().status().reason() == reasons::kAccessDenied);
  }
  SECTION("a cache that is no folder") {
    f.site.Install("nixl_cu13", "1.5.1");
    std::ofstream(f.cache.path() / "a") << "a file";
    CHECK(f.Make().status().remedy().find("--cache") != std::string::npos);
  }
}
