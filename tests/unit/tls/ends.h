// Two ends of a connection, for handshakes.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <array>

#include "tests/support/catch.h"
#include "tests/support/certificates.h"
#include "transport/os/base/unique_fd.h"
#include "transport/tls/handshake.h"

namespace onecopy::testing {

inline std::shared_ptr<const tls::Identity> IdentityOf(const Authority& authority,
                                                       const Authority::Files& files,
                                                       const std::string& node) {
  auto identity = tls::Identity::Load({authority.ca(), files.certificate, files.key, ""}, node);
  REQUIRE_OK(identity);
  return *identity;
}

struct Ends {
  Ends() {
    ::signal(SIGPIPE, SIG_IGN);
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    one = os::UniqueFd(fds[0]);
    other = os::UniqueFd(fds[1]);
  }
  os::UniqueFd one;
  os::UniqueFd other;
};

// Goes on until both have ended: how each did.
inline std::array<Status, 2> ShakeHands(tls::Handshake& one, tls::Handshake& other) {
  std::array<Status, 2> outcome;
  std::array<bool, 2> ended{};
  std::array<tls::Handshake*, 2> both = {&one, &other};
  for (int turn = 0; turn < 100 && !(ended[0] && ended[1]); ++turn) {
    for (size_t i = 0; i < 2; ++i) {
      if (ended[i]) continue;
      const auto next = both[i]->Step();
      ended[i] = !next.ok() || *next == tls::Handshake::Next::kDone;
      outcome[i] = next.status();
      if (!ended[i] && ended[1 - i] && !outcome[1 - i].ok()) return outcome;
    }
  }
  REQUIRE(ended[0]);
  REQUIRE(ended[1]);
  return outcome;
}

// A connection of east, who has connected, with west.
struct Shaken {
  Authority authority;
  std::shared_ptr<const tls::Identity> east =
      IdentityOf(authority, authority.Issue("east", "DNS:east"), "east");
  std::shared_ptr<const tls::Identity> west =
      IdentityOf(authority, authority.Issue("west", "DNS:west"), "west");
  Ends ends;
  std::unique_ptr<tls::Handshake> client;
  std::unique_ptr<tls::Handshake> server;

  Shaken() {
    auto one = tls::Handshake::Begin(*east, tls::Side::kClient, ends.one.get());
    auto other = tls::Handshake::Begin(*west, tls::Side::kServer, ends.other.get());
    REQUIRE_OK(one);
    REQUIRE_OK(other);
    client = std::move(*one);
    server = std::move(*other);
    for (const Status& outcome : ShakeHands(*client, *server)) REQUIRE_OK(outcome);
  }
  tls::SessionKeys KeysOf(const tls::Handshake& end) const {
    auto keys = end.keys();
    REQUIRE_OK(keys);
    return *keys;
  }
};

}  // namespace onecopy::testing
