// Addresses as gRPC writes them.
#pragma once

#include <string>

#include "onecopy/result.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy::rpc {

// "ipv4:10.0.0.1:7701", "ipv6:[::1]:7701" or, percent-encoded, "ipv6:%5B::1%5D:7701". An IPv4
// address written as an IPv6 one becomes IPv4. INVALID_ARGUMENT for anything else, such as "unix:".
Result<os::HostPort> ParsePeerUri(const std::string& uri);

// `address` is HOST:PORT as a node gives it for itself. Where the host is empty or unspecified
// (0.0.0.0, ::), it becomes that of `seen`, the address at which the node was seen; otherwise, and
// where either makes no sense, `address` is returned as it is.
std::string CompleteAddress(const std::string& address, const std::string& seen_uri);

}  // namespace onecopy::rpc
