#include "client/nixl/versions.h"

#include <filesystem>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"
#include "tests/unit/nixl/site.h"

using namespace onecopy;
using namespace onecopy::nixl;
using onecopy::testing::Site;

TEST_CASE("a NIXL is known by the package that brought it") {
  Site site;
  site.Install("nixl_cu13", "1.5.1");
  site.Install("nixl_cu12", "9.0.0");
  const auto core = FindCoreOf(site.Core("nixl_cu13"));
  REQUIRE_OK(core);
  CHECK(core->package == "nixl_cu13");
  CHECK(core->version == "1.5.1");
  CHECK(CheckKnown(*core).ok());

  const auto newer = FindCoreOf(site.Core("nixl_cu12"));
  REQUIRE_OK(newer);
  const Status refused = CheckKnown(*newer);
  CHECK(refused.reason() == reasons::kNixlUnknown);
  CHECK(refused.message().find("9.0.0") != std::string::npos);
  CHECK(refused.remedy().find("1.5.1") != std::string::npos);
}

TEST_CASE("a NIXL that no package brought as it is, is not known") {
  Site site;
  SECTION("not in the list of any") {
    site.Install("nixl_cu13", "1.5.1");
    site.Write("nixl_cu13-1.5.1.dist-info/RECORD", "nixl_cu13/__init__.py,sha256=x,12\n");
  }
  SECTION("a list that cannot be read") {
    site.Install("nixl_cu13", "1.5.1");
    site.Write("nixl_cu13-1.5.1.dist-info/RECORD", ".nixl_cu13.mesonpy.libs/libnixl.so,,\n");
  }
  SECTION("another library in its place") { site.Install("nixl_cu13", "1.5.1", 5); }
  SECTION("built by hand") { site.Write(".nixl_cu13.mesonpy.libs/libnixl.so", "core"); }
  SECTION("not there") {}
  const auto core = FindCoreOf(site.Core("nixl_cu13"));
  REQUIRE(!core);
  CHECK(core.status().code() == Code::kFailedPrecondition);
  CHECK(core.status().reason() == reasons::kNixlUnknown);
}

TEST_CASE("code that is in no library is no NIXL") {
  const int here = 0;
  CHECK(FindCore(&here).status().reason() == reasons::kNixlUnknown);
}
