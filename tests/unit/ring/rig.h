// A ring with both of its ends in one process, and the client's view of its memory for tests that
// write nonsense there.
#pragma once

#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <utility>

#include "tests/support/catch.h"
#include "transport/ring/client_end.h"
#include "transport/ring/daemon_end.h"

namespace onecopy::ring {

inline std::pair<os::UniqueFd, os::UniqueFd> Sockets() {
  int pair[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
  return {os::UniqueFd(pair[0]), os::UniqueFd(pair[1])};
}

struct Client {
  // `daemon` is the end that the daemon keeps.
  explicit Client(const DaemonEnd& daemon, os::UniqueFd socket)
      : memory(os::UniqueFd::DuplicateOf(daemon.memory())),
        mapping(Map(memory)),
        wake(socket.Duplicate()),
        end(Open(memory, std::move(socket))) {}

  Shared& shared() { return *reinterpret_cast<Shared*>(mapping.data()); }
  uint64_t Submit(uint64_t route, uint64_t from, uint64_t to, uint64_t bytes) {
    uint64_t number = 0;
    REQUIRE(end.Submit(route, from, to, bytes, &number));
    return number;
  }
  // A byte on the socket, asked for or not.
  void Wake() { static_cast<void>(!::send(wake.get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL)); }
  // Blocks.
  Ended Next() {
    Ended ended;
    while (!end.Reap(&ended)) end.Sleep(std::chrono::seconds(1));
    return ended;
  }

  static os::Mapping Map(const os::UniqueFd& memory) {
    auto mapping = os::MapShared(memory.get(), sizeof(Shared));
    REQUIRE_OK(mapping);
    return std::move(*mapping);
  }
  static ClientEnd Open(const os::UniqueFd& memory, os::UniqueFd socket) {
    auto end = ClientEnd::Open(memory, std::move(socket));
    REQUIRE_OK(end);
    return std::move(*end);
  }

  os::UniqueFd memory;
  os::Mapping mapping;
  os::UniqueFd wake;
  ClientEnd end;
};

}  // namespace onecopy::ring
