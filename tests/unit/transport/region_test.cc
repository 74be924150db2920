// Memory of which it is known that nothing is known.
#include "transport/core/contracts/region.h"

#include <array>

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

using namespace onecopy;

TEST_CASE("memory that something unheard of may still write is trusted no more, and says why") {
  std::array<std::byte, 16> bytes{};
  Region region({"host", ""}, bytes.data(), bytes.size(), true, [] {});
  CHECK(region.CheckUsable().ok());
  region.Distrust();
  for (const Status& status : {region.CheckIntact(), region.CheckUsable()}) {
    CHECK(status.code() == Code::kAborted);
    CHECK(status.reason() == reasons::kDriverFailed);
    CHECK(status.remedy().find("restart onecopyd") != std::string::npos);
  }
}
