// Lets other processes find the process that holds a TCP socket, where they would else have to look
// through the open files of every process.
#pragma once

#include <cstdint>
#include <optional>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::os {

// Marks the bound TCP socket `fd` for as long as the descriptor that is returned is open: a
// listening Unix socket with a name of its own, whose holder the kernel tells anybody who connects
// to it. Connections to it have to be accepted and closed where it stays for long. Fails where the
// port is marked already, or the kernel has no such sockets; the socket works all the same.
Result<UniqueFd> MarkSocket(int fd);

// The process that has marked a socket with that port in this network namespace. Anybody can mark
// any port: look whether that process has the socket. No value where the port is not marked, or
// by a process of a PID namespace that cannot be seen from here. Does not block.
std::optional<int32_t> MarkedHolder(uint16_t port);

}  // namespace onecopy::os
