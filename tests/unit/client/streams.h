// Streams of a test: what is written to one end is read from the other.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "tests/support/catch.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::testing {

struct Stream {
  os::UniqueFd read;
  os::UniqueFd write;
};

inline Stream MakePipe() {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  return {os::UniqueFd(ends[0]), os::UniqueFd(ends[1])};
}

inline Stream MakeSockets() {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  return {os::UniqueFd(ends[0]), os::UniqueFd(ends[1])};
}

inline Stream MakeTerminal() {
  os::UniqueFd ours(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  char name[64];
  REQUIRE(::grantpt(ours.get()) == 0);
  REQUIRE(::unlockpt(ours.get()) == 0);
  REQUIRE(::ptsname_r(ours.get(), name, sizeof name) == 0);
  os::UniqueFd theirs(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(theirs);
  return {std::move(ours), std::move(theirs)};
}

}  // namespace onecopy::testing
