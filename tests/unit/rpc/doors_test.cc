// Doors of a server: who gets one, and for how long it stays theirs.
#include "daemon/rpc/identity/doors.h"

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

namespace doors_test {
using namespace onecopy;
using namespace onecopy::rpc;
using namespace std::chrono_literals;

namespace {

const os::Clock::time_point kBegin = os::Clock::now();

}  // namespace

TEST_CASE("everybody has a door of their own, and shares it with nobody") {
  grpc::ServerBuilder builder;
  const auto doors = Doors::ForEach(builder, {"east", {}}, 3, {"uid 0"});
  const auto alice = doors->Enter("uid 1", {1, "east"}, kBegin);
  const auto again = doors->Enter("uid 1", {1, "east"}, kBegin);
  const auto bob = doors->Enter("uid 2", {2, "east"}, kBegin);
  REQUIRE_OK(alice);
  REQUIRE_OK(bob);
  CHECK(*alice == *again);
  CHECK(*alice != *bob);
  // The third is root's, whether root is there or not.
  const auto late = doors->Enter("uid 3", {3, "east"}, kBegin);
  CHECK(late.status().code() == Code::kResourceExhausted);
  CHECK(late.status().reason() == reasons::kQuota);
  const auto root = doors->Enter("uid 0", {0, "east"}, kBegin);
  REQUIRE_OK(root);
  CHECK(*root != *alice);
  CHECK(*root != *bob);
}

TEST_CASE("a door that was left goes to others after a while, and back to its owner at once") {
  grpc::ServerBuilder builder;
  const auto doors = Doors::ForEach(builder, {"east", {}}, 1, {});
  const auto alice = doors->Enter("uid 1", {1, "east"}, kBegin);
  REQUIRE_OK(alice);
  REQUIRE_OK(doors->Enter("uid 1", {1, "east"}, kBegin));
  doors->Leave("uid 1", kBegin + 1s);
  CHECK_FALSE(
      doors->Enter("uid 2", {2, "east"}, kBegin + 10min).ok());  // one connection is still there
  doors->Leave("uid 1", kBegin + 10min);
  CHECK_FALSE(doors->Enter("uid 2", {2, "east"}, kBegin + 10min + 59s).ok());
  REQUIRE_OK(doors->Enter("uid 1", {1, "east"}, kBegin + 10min + 59s));
  doors->Leave("uid 1", kBegin + 11min);
  REQUIRE_OK(doors->Enter("uid 2", {2, "east"}, kBegin + 12min));
  CHECK_FALSE(doors->Enter("uid 1", {1, "east"}, kBegin + 12min).ok());
}

TEST_CASE("whoever pays has few doors, in however many namespaces") {
  grpc::ServerBuilder builder;
  engine::Limits limits;
  limits.namespaces = {4, 16};
  limits.reserved_percent = 0;
  const auto doors = Doors::ForEach(builder, {"east", limits}, 16, {});
  const engine::Owner mallory{{1000, "user7"}, "east"};
  for (int i = 0; i < 4; ++i) {
    REQUIRE_OK(doors->Enter("uid 1000 user " + std::to_string(i), mallory, kBegin));
  }
  const Status refused =
      doors->Enter("uid 1000 user 5", {{1000, "user8"}, "east"}, kBegin).status();
  CHECK(refused.reason() == reasons::kQuota);
  CHECK(refused.remedy().find("[limits] namespaces_per_user, which is 4") != std::string::npos);
  REQUIRE_OK(doors->Enter("uid 1000 user 0", mallory, kBegin));  // one that is there
  REQUIRE_OK(doors->Enter("uid 1001", {1001, "east"}, kBegin));
  // One that was left makes room after a while.
  doors->Leave("uid 1000 user 1", kBegin);
  CHECK_FALSE(doors->Enter("uid 1000 user 5", mallory, kBegin + 59s).ok());
  REQUIRE_OK(doors->Enter("uid 1000 user 5", mallory, kBegin + 60s));
}

TEST_CASE("one door is everybody's") {
  grpc::ServerBuilder builder;
  const auto doors = Doors::One(builder, grpc::InsecureServerCredentials());
  const auto alice = doors->Enter("10.0.0.1", engine::Stranger("10.0.0.1"), kBegin);
  const auto bob = doors->Enter("10.0.0.2", engine::Stranger("10.0.0.2"), kBegin);
  REQUIRE_OK(alice);
  REQUIRE_OK(bob);
  CHECK(*alice == *bob);
  doors->Leave("10.0.0.1", kBegin);
  doors->Leave("10.0.0.2", kBegin);
}
}  // namespace doors_test
