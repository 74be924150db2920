// How two ends of a lane come to know each other, and to their keys.
#include "transport/tls/handshake.h"

#include <algorithm>

#include "onecopy/reasons.h"
#include "tests/unit/tls/ends.h"

using namespace onecopy;
using namespace onecopy::tls;
using namespace onecopy::testing;

namespace {

std::array<Status, 2> Shake(const Identity& client, const Identity& server) {
  Ends ends;
  auto one = Handshake::Begin(client, Side::kClient, ends.one.get());
  auto other = Handshake::Begin(server, Side::kServer, ends.other.get());
  REQUIRE_OK(one);
  REQUIRE_OK(other);
  return ShakeHands(**one, **other);
}

}  // namespace

TEST_CASE("both ends prove who they are, and have the same keys crosswise") {
  const Shaken shaken;
  const Chain of_west = shaken.client->presented();
  const Chain of_east = shaken.server->presented();
  REQUIRE_OK(shaken.east->Verify(of_west, "west", Side::kServer));
  REQUIRE_OK(shaken.west->Verify(of_east, "east", Side::kClient));
  CHECK_FALSE(shaken.west->Verify(of_east, "west", Side::kClient).ok());

  const SessionKeys client = shaken.KeysOf(*shaken.client);
  const SessionKeys server = shaken.KeysOf(*shaken.server);
  const auto same = [](const DirectionKeys& a, const DirectionKeys& b) {
    return a.cipher == b.cipher && std::ranges::equal(a.key.get(), b.key.get()) &&
           std::ranges::equal(a.iv.get(), b.iv.get());
  };
  CHECK(same(client.sending, server.receiving));
  CHECK(same(client.receiving, server.sending));
  CHECK_FALSE(same(client.sending, client.receiving));
  CHECK(CipherName(client.sending.cipher).starts_with("TLS_"));
  CHECK(client.sending.key.get().size() >= 16);
}

TEST_CASE("who has no certificate of the authority is refused, and both ends say so") {
  Authority ours;
  Authority theirs;
  const auto west = IdentityOf(ours, ours.Issue("west", "DNS:west"), "west");
  const auto stranger = IdentityOf(theirs, theirs.Issue("east", "DNS:east"), "east");
  const auto as_client = Shake(*stranger, *west);
  CHECK(as_client[0].reason() == reasons::kCertRejected);
  const auto as_server = Shake(*west, *stranger);
  CHECK(as_server[0].reason() == reasons::kCertRejected);
}

TEST_CASE("a client of gRPC is not let into a lane, and no certificate is blamed for it") {
  Authority authority;
  const auto west = IdentityOf(authority, authority.Issue("west", "DNS:west"), "west");
  const auto east = IdentityOf(authority, authority.Issue("east", "DNS:east"), "east");
  Ends ends;
  auto client = Handshake::Begin(*east, Side::kClient, ends.one.get(), Handshake::Protocol::kGrpc);
  auto server = Handshake::Begin(*west, Side::kServer, ends.other.get());
  REQUIRE_OK(client);
  REQUIRE_OK(server);
  for (const Status& end : ShakeHands(**client, **server)) {
    CHECK(end.reason() == reasons::kLinkDown);
  }
}

TEST_CASE("what is no handshake ends it") {
  Authority authority;
  const auto west = IdentityOf(authority, authority.Issue("west", "DNS:west"), "west");
  const auto judge = [&](const std::string& sent, bool closed) {
    Ends ends;
    auto server = Handshake::Begin(*west, Side::kServer, ends.other.get());
    REQUIRE_OK(server);
    REQUIRE(::send(ends.one.get(), sent.data(), sent.size(), 0) ==
            static_cast<ssize_t>(sent.size()));
    if (closed) ends.one.Reset();
    return (*server)->Step();
  };
  CHECK(judge("GET / HTTP/1.1\r\n\r\n", false).status().reason() == reasons::kLinkDown);
  CHECK(judge(std::string(4096, '\0'), false).status().reason() == reasons::kLinkDown);
  CHECK(judge("", true).status().reason() == reasons::kLinkDown);
  const auto waiting = judge("\x16", false);
  REQUIRE_OK(waiting);
  CHECK(*waiting == Handshake::Next::kRead);
}
