// With whom UCX is used.
#include "transport/link/ucx/trust.h"

#include "tests/support/catch.h"
#include "transport/core/reasons.h"

using namespace onecopy;
using namespace onecopy::ucx;

TEST_CASE("a peer is trusted by its proven name only") {
  const TrustSettings settings{{"east", "west"}, true, false};
  const auto east = Judge(settings, "east");
  REQUIRE_OK(east);
  CHECK(*east == AddressSource::kMessage);
  const auto north = Judge(settings, "north");
  CHECK(north.status().code() == Code::kPermissionDenied);
  CHECK(north.status().message().find("north") != std::string::npos);
  CHECK_FALSE(Judge(settings, "").ok());
  CHECK_FALSE(Judge(settings, "eas").ok());
  REQUIRE_OK(CheckTrustSettings(settings));
}

TEST_CASE("a name that is not proven is not trusted") {
  const TrustSettings settings{{"east"}, false, false};
  CHECK(Judge(settings, "east").status().reason() == reasons::kInsecure);
  CHECK(CheckTrustSettings(settings).reason() == reasons::kInsecure);
}

TEST_CASE("who trusts nobody uses no UCX") {
  const TrustSettings settings{{}, true, false};
  CHECK_FALSE(Judge(settings, "east").ok());
  CHECK(CheckTrustSettings(settings).reason() == reasons::kInsecure);
}

TEST_CASE("on loopback every address must be that of this user's process, listed or not") {
  for (const bool authenticated : {false, true}) {
    const TrustSettings settings{{"east"}, authenticated, true};
    REQUIRE_OK(CheckTrustSettings(settings));
    for (const char* peer : {"east", "north"}) {
      const auto source = Judge(settings, peer);
      REQUIRE_OK(source);
      CHECK(*source == AddressSource::kSameUser);
    }
  }
}
