// Which of a port's addresses is used.
#include "transport/link/verbs/gid.h"

#include "tests/support/catch.h"

using namespace onecopy::verbs;

namespace {

Gid Ipv4(uint8_t last) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, last}; }
Gid Ipv6(uint8_t first, uint8_t second) {
  return {first, second, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
}

}  // namespace

TEST_CASE("on Ethernet the RoCE v2 entry of an IPv4 address comes first, link-local ones last") {
  const GidEntry v1{0, Ipv4(1), GidType::kRoceV1};
  const GidEntry local{1, Ipv6(0xfe, 0x80), GidType::kRoceV2};
  const GidEntry global{2, Ipv6(0x20, 0x01), GidType::kRoceV2};
  const GidEntry ipv4{3, Ipv4(1), GidType::kRoceV2};
  const GidEntry second{4, Ipv4(2), GidType::kRoceV2};
  CHECK(ChooseGid({v1, local, global, ipv4, second}, true)->index == 3);
  CHECK(ChooseGid({v1, local, global}, true)->index == 2);
  CHECK(ChooseGid({v1, local}, true)->index == 1);
  CHECK_FALSE(ChooseGid({v1}, true));
  CHECK_FALSE(ChooseGid({}, true));
}

TEST_CASE("on InfiniBand the first entry is used") {
  const GidEntry first{0, Ipv6(0xfe, 0x80), GidType::kInfiniBand};
  const GidEntry second{1, Ipv6(0xfe, 0xc0), GidType::kInfiniBand};
  CHECK(ChooseGid({first, second}, false)->index == 0);
}

TEST_CASE("an address is printed as people write it") {
  CHECK(GidText(Ipv4(2)) == "10.77.0.2");
  CHECK(GidText(Ipv6(0xfe, 0x80)) == "fe80::1");
}
