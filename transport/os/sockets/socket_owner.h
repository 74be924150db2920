// The process at the other end of a connection inside this machine, over TCP or a Unix socket.
#pragma once

#include <cstdint>
#include <optional>

#include "onecopy/result.h"

namespace onecopy::os {

struct FarSocket {
  uint32_t uid = 0;    // of its owner
  uint64_t inode = 0;  // that processes have it open as
  uint16_t port = 0;   // its own
};

// The far socket of the connected TCP socket `fd`, as the kernel's socket tables have it
// (sock_diag). One that was not accepted yet has no owner, so ask once it has spoken. No value
// when that socket is not in this network namespace: the far end is another machine or container.
// Does not block.
//
// Fails when the kernel does not answer, and with UNAVAILABLE when the connection is ending: a
// socket that its process has closed has no owner, so bytes that it left unread must not be
// attributed to any process.
Result<std::optional<FarSocket>> FindFarSocket(int fd);

// Whether the process `pid` has the socket open that the connected Unix socket `fd` leads to. No
// value where that cannot be seen from here: it takes a debugger's rights over the process, and the
// kernel's table of Unix sockets.
std::optional<bool> HoldsFarEnd(int32_t pid, int fd);

}  // namespace onecopy::os
