// Who is at the other end of a connection without TLS, where the kernel can tell.
#pragma once

#include <string>

#include "onecopy/status.h"

namespace onecopy::rpc {

// On plain text a peer's word is all there is; but the far end of a connection that does not leave
// this machine must belong to the daemon's own user or to root, in the daemon's own user and PID
// namespaces: a container's root is somebody else. `far_host` is its address, and `has` what it
// did, for messages: "has connected as a peer". PERMISSION_DENIED (ACCESS_DENIED), also where it
// cannot be told; UNAVAILABLE when the connection is ending. Does not wait for anybody. Looks at
// one process where the far end is marked (transport/os/sockets/socket_mark.h), as daemons mark
// theirs.
Status CheckPlainPeer(int fd, const std::string& far_host, const std::string& has);

}  // namespace onecopy::rpc
