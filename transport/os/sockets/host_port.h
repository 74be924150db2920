// "HOST:PORT" as people write it, and TCP sockets made from it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::os {

struct HostPort {
  std::string host;  // a name or an address; IPv6 without brackets
  uint16_t port = 0;

  // Brackets around an IPv6 address, as in "[::1]:7701".
  std::string ToString() const;

  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// INVALID_ARGUMENT for what is not HOST:PORT with a port of 0…65535.
Result<HostPort> ParseHostPort(std::string_view text);

// Several with commas between, and blanks after these. INVALID_ARGUMENT if one of them is not
// HOST:PORT, or is there twice.
Result<std::vector<HostPort>> ParseHostPorts(std::string_view text);
std::string ToString(const std::vector<HostPort>& addresses);  // as ParseHostPorts takes it

// True for 127.0.0.0/8, ::1 and "localhost".
bool IsLoopback(const std::string& host);

// A listening, non-blocking socket. May look the name up, so it may block. UNAVAILABLE when the
// port is taken; NOT_FOUND when the host is not an address of this machine.
Result<UniqueFd> ListenTcp(const HostPort& where, int backlog);

// The same, also if this machine does not have that address now: connections come once it does.
Result<UniqueFd> ListenTcpAnywhere(const HostPort& where, int backlog);

// A non-blocking socket on its way to `where`, whose host must be an address (names are not looked
// up). Writable once connected; ConnectError tells how it went.
Result<UniqueFd> ConnectTcp(const HostPort& where);
// The same, but its own port is known before anything is sent: `bound` runs with the socket then.
Result<UniqueFd> ConnectTcp(const HostPort& where, const std::function<void(int fd)>& bound);
Status ConnectError(int fd);

// The socket's own address and that of its peer.
Result<HostPort> LocalAddress(int fd);
Result<HostPort> PeerAddress(int fd);

// Name of the network device that carries this address ("lo", "eth0"); empty when none does.
std::string InterfaceOf(const std::string& address);

}  // namespace onecopy::os
