#include "daemon/discovery/address.h"

#include "onecopy/reasons.h"
#include "tests/support/catch.h"

namespace onecopy::discovery {
namespace {

TEST_CASE("an address must be one that this node can connect to") {
  const AddressRules network{.own = {"10.0.0.1", 7701}, .beyond_machine = true};
  CHECK(CheckAddress("10.0.0.2:7701", network).ok());
  CHECK(CheckAddress("[fd00::2]:7701", network).ok());
  CHECK(CheckAddress("gpu-02.example.com:7701", network).ok());
  for (const char* bad : {"", "10.0.0.2", "10.0.0.2:0", ":7701", "0.0.0.0:7701", "[::]:7701",
                          "0:7701", "127.0.0.1:7701", "localhost:7701", "[::1]:7701",
                          "unix:/tmp/x:1", "a b:1", "x\n:1", "10.0.0.2:70000"}) {
    INFO(bad);
    CHECK(CheckAddress(bad, network).reason() == reasons::kBadEndpoint);
  }
  CHECK_FALSE(CheckAddress(std::string(300, 'a') + ":1", network).ok());
}

TEST_CASE("without encryption an address of another machine is refused") {
  const AddressRules alone{.own = {"127.0.0.1", 7701}, .beyond_machine = false};
  CHECK(CheckAddress("127.0.0.1:7703", alone).ok());
  CHECK(CheckAddress("10.0.0.2:7701", alone).reason() == reasons::kInsecure);
}

TEST_CASE("an address of this machine with this node's port is its own") {
  const AddressRules rules{.own = {"10.0.0.1", 7701}, .beyond_machine = true};
  CHECK(IsOwnAddress("10.0.0.1:7701", rules, {}));
  CHECK(IsOwnAddress("10.1.0.1:7701", rules, {"10.1.0.1"}));
  CHECK_FALSE(IsOwnAddress("10.1.0.1:7703", rules, {"10.1.0.1"}));
  CHECK_FALSE(IsOwnAddress("10.0.0.2:7701", rules, {"10.1.0.1"}));
}

}  // namespace
}  // namespace onecopy::discovery
