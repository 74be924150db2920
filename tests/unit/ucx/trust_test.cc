// With whom UCX is used.
#include "transport/link/ucx/trust.h"

#include "tests/support/catch.h"

using namespace onecopy::ucx;

TEST_CASE("a peer is trusted by its proven name only") {
  const TrustSettings settings{{"east", "west"}, true};
  CHECK(TrustsAnyone(settings));
  CHECK(SourceFor(settings, "east") == AddressSource::kMessage);
  for (const char* other : {"north", "", "eas", "east "}) {
    CHECK(SourceFor(settings, other) == AddressSource::kSameUser);
  }
}

TEST_CASE("a name that is not proven is not trusted") {
  const TrustSettings settings{{"east"}, false};
  CHECK(SourceFor(settings, "east") == AddressSource::kSameUser);
  CHECK_FALSE(TrustsAnyone(settings));
}

TEST_CASE("who trusts nobody takes addresses of the same user's processes only") {
  const TrustSettings settings{{}, true};
  CHECK(SourceFor(settings, "east") == AddressSource::kSameUser);
  CHECK_FALSE(TrustsAnyone(settings));
}
