#include "transport/os/sockets/host_port.h"

#include <poll.h>
#include <sys/socket.h>

#include "tests/support/catch.h"
#include "transport/os/sockets/silence.h"

using onecopy::os::HostPort;
using onecopy::os::IsLoopback;
using onecopy::os::ParseHostPort;

TEST_CASE("addresses are read as people write them") {
  CHECK(*ParseHostPort("127.0.0.1:7701") == HostPort{"127.0.0.1", 7701});
  CHECK(*ParseHostPort("node-3.cluster:0") == HostPort{"node-3.cluster", 0});
  CHECK(*ParseHostPort("[::1]:7701") == HostPort{"::1", 7701});
  CHECK(HostPort{"::1", 7701}.ToString() == "[::1]:7701");
  for (const char* text :
       {"", "host", "host:", ":1", "host:65536", "host:-1", "host:7x", "::1:7701", "[]:1"}) {
    INFO(text);
    CHECK(ParseHostPort(text).status().code() == onecopy::Code::kInvalidArgument);
  }
}

TEST_CASE("loopback is known in all its spellings") {
  for (const char* host : {"127.0.0.1", "127.3.2.1", "::1", "localhost"}) CHECK(IsLoopback(host));
  for (const char* host : {"0.0.0.0", "10.0.0.1", "::", "localhost.example", "128.0.0.1"}) {
    CHECK_FALSE(IsLoopback(host));
  }
}

TEST_CASE("a connection whose client speaks first is accepted with its first byte") {
  const auto listener = onecopy::os::ListenTcp({"127.0.0.1", 0}, 8);
  REQUIRE_OK(listener);
  onecopy::os::AwaitFirstByte(listener->get());
  const auto client = onecopy::os::ConnectTcp(*onecopy::os::LocalAddress(listener->get()));
  REQUIRE_OK(client);
  pollfd connected{client->get(), POLLOUT, 0};
  REQUIRE(::poll(&connected, 1, 60'000) == 1);
  pollfd waiting{listener->get(), POLLIN, 0};
  CHECK(::poll(&waiting, 1, 0) == 0);
  REQUIRE(::send(client->get(), "x", 1, MSG_NOSIGNAL) == 1);
  REQUIRE(::poll(&waiting, 1, 60'000) == 1);
  const onecopy::os::UniqueFd served(::accept(listener->get(), nullptr, nullptr));
  char first = 0;
  CHECK(::recv(served.get(), &first, 1, 0) == 1);
  CHECK(first == 'x');
}

TEST_CASE("a taken port is said to be taken") {
  auto first = onecopy::os::ListenTcp({"127.0.0.1", 0}, 1);
  REQUIRE_OK(first);
  const auto where = onecopy::os::LocalAddress(first->get());
  REQUIRE_OK(where);
  const auto second = onecopy::os::ListenTcp(*where, 1);
  CHECK(second.status().code() == onecopy::Code::kUnavailable);
  CHECK(second.status().message().find(where->ToString()) != std::string::npos);
}

TEST_CASE("the device of an address is found") {
  CHECK(onecopy::os::InterfaceOf("127.0.0.1") == "lo");
  CHECK(onecopy::os::InterfaceOf("203.0.113.9").empty());
}
