#include "daemon/rpc/identity/peer_address.h"

#include "tests/support/catch.h"

namespace peer_address_test {
using namespace onecopy;
using rpc::CompleteAddress;
using rpc::ParsePeerUri;

TEST_CASE("addresses are read as gRPC writes them") {
  const std::vector<std::tuple<std::string, std::string, uint16_t>> good = {
      {"ipv4:127.0.0.1:7701", "127.0.0.1", 7701},
      {"ipv6:[::1]:7701", "::1", 7701},
      {"ipv6:%5B::1%5D:7701", "::1", 7701},
      {"ipv6:%5b2001:db8::2%5d:65535", "2001:db8::2", 65535},
      {"ipv6:%5B::ffff:10.0.0.1%5D:1", "10.0.0.1", 1},
      {"ipv6:%5Bfe80::1%25eth0%5D:7701", "fe80::1%eth0", 7701}};
  for (const auto& [uri, host, port] : good) {
    INFO(uri);
    const auto address = ParsePeerUri(uri);
    REQUIRE_OK(address);
    CHECK(address->host == host);
    CHECK(address->port == port);
  }
}

TEST_CASE("what is not an IP address is refused") {
  for (const std::string uri : {"", "unix:", "unix:/run/x", "ipv4:", "ipv4:1.2.3.4", "dns:east:1",
                                "ipv6:::1:7701", "ipv4:1.2.3.4:70000", "ipv6:%5B::1%5"}) {
    INFO(uri);
    CHECK(ParsePeerUri(uri).status().code() == Code::kInvalidArgument);
  }
}

TEST_CASE("an unspecified host becomes the one that was seen") {
  CHECK(CompleteAddress("0.0.0.0:7701", "ipv4:10.0.0.7:40000") == "10.0.0.7:7701");
  CHECK(CompleteAddress(":7701", "ipv4:10.0.0.7:40000") == "10.0.0.7:7701");
  CHECK(CompleteAddress("[::]:7701", "ipv6:%5B2001:db8::7%5D:40000") == "[2001:db8::7]:7701");
  CHECK(CompleteAddress("east.example:7701", "ipv4:10.0.0.7:40000") == "east.example:7701");
  CHECK(CompleteAddress("", "ipv4:10.0.0.7:40000").empty());
  CHECK(CompleteAddress(":x", "ipv4:10.0.0.7:40000") == ":x");
  CHECK(CompleteAddress("0.0.0.0:7701", "unix:") == "0.0.0.0:7701");
}
}  // namespace peer_address_test
